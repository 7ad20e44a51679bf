/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of tar shards. See webdataset.h. */
#include "trainer/data/webdataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "trainer/data/tar.h"

/* The part that an extension stands for; LH_WDS_N_PARTS: none that is used. */
static enum lh_wds_part part_of(const char *extension)
{
	static const struct {
		const char *extension;
		enum lh_wds_part part;
	} known[] = {
		{"ppm", LH_WDS_IMAGE}, {"pgm", LH_WDS_IMAGE},  {"png", LH_WDS_IMAGE},
		{"jpg", LH_WDS_IMAGE}, {"jpeg", LH_WDS_IMAGE}, {"wav", LH_WDS_WAV},
		{"txt", LH_WDS_TXT},   {"cls", LH_WDS_CLS},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasecmp(extension, known[i].extension) == 0)
			return known[i].part;
	return LH_WDS_N_PARTS;
}

/* The last sample of the index if it is of this shard and key, or a new one; NULL: memory. */
static struct lh_wds_sample *sample_of(struct lh_wds_index *index, uint32_t shard, const char *key)
{
	struct lh_wds_sample *s = index->n ? &index->samples[index->n - 1] : NULL;

	if (s && s->shard == shard && strcmp(s->key, key) == 0)
		return s;
	if (index->n == index->room) {
		size_t room = index->room ? index->room * 2 : 64;

		s = realloc(index->samples, room * sizeof(*s));
		if (!s)
			return NULL;
		index->samples = s;
		index->room = room;
	}
	s = &index->samples[index->n];
	*s = (struct lh_wds_sample){.shard = shard, .key = strdup(key)};
	if (!s->key)
		return NULL;
	index->n++;
	return s;
}

static int add_member(struct lh_wds_index *index, uint32_t shard, struct lh_tar *tar,
		      struct lh_error *err)
{
	char *last = strrchr(tar->name, '/');
	char *dot = strchr(last ? last : tar->name, '.');
	struct lh_wds_sample *s;
	enum lh_wds_part part;

	/* such as a folder, or what begins with a dot */
	if (!dot || dot == tar->name || dot[-1] == '/')
		return 0;
	part = part_of(dot + 1);
	if (part == LH_WDS_N_PARTS)
		return 0;
	*dot = '\0';
	s = sample_of(index, shard, tar->name);
	if (!s)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", tar->path);
	if (s->has & 1u << part)
		return lh_fail(err, LH_EINPUT, 0, "%s: sample %s: has .%s twice", tar->path, s->key,
			       dot + 1);
	s->has |= 1u << part;
	s->parts[part].data = tar->content;
	s->parts[part].size = tar->content_size;
	return 0;
}

int lh_wds_index_add(struct lh_wds_index *index, uint32_t shard, const char *path,
		     const uint8_t *data, size_t size, struct lh_error *err)
{
	lh_cleanup_free struct lh_tar *tar = malloc(sizeof(*tar));
	int r;

	if (!tar)
		return lh_fail(err, LH_ESYS, ENOMEM, "open %s", path);
	lh_tar_init(tar, path, data, size);
	while ((r = lh_tar_next(tar, err)) > 0) {
		r = add_member(index, shard, tar, err);
		if (r < 0)
			break;
	}
	return r;
}

void lh_wds_index_done(struct lh_wds_index *index)
{
	for (size_t i = 0; i < index->n; i++)
		free((char *)index->samples[i].key);
	free(index->samples);
	*index = (struct lh_wds_index){0};
}

int lh_wds_label(const uint8_t *text, size_t n, int32_t *ret)
{
	int32_t value = 0;
	size_t i = 0, digits = 0;

	while (i < n && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	for (; i < n && text[i] >= '0' && text[i] <= '9' && digits < 7; i++, digits++)
		value = value * 10 + (text[i] - '0');
	while (i < n && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	*ret = value;
	return digits && i == n ? 0 : -1;
}
