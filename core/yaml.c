/* SPDX-License-Identifier: Apache-2.0 */
/* YAML trees on libyaml. See yaml.h. */
#include "core/yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/cleanup.h"
#include "core/file.h"

enum {
	YAML_FILE_MAX_BYTES = 16 << 20,
	YAML_MAX_VALUES = 100000, /* after aliases are expanded */
	YAML_MAX_DEPTH = 64,
	YAML_MAX_KEYS = 10000, /* of one mapping: looking for duplicates is quadratic */
};

struct loader {
	const char *name;
	yaml_document_t *doc;
	struct lh_diag *diag;
	size_t n_values;
};

void lh_yaml_free(struct lh_yaml *v)
{
	if (!v)
		return;
	for (size_t i = 0; i < v->n_entries; i++) {
		free(v->entries[i].key);
		lh_yaml_free(v->entries[i].value);
	}
	free(v->entries);
	free(v->text);
	free((char *)v->pos.file);
	free(v);
}

static struct lh_yaml *value_new(enum lh_yaml_kind kind, struct lh_pos pos)
{
	struct lh_yaml *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->kind = kind;
	v->pos = pos;
	v->pos.file = strdup(pos.file ? pos.file : "-");
	if (!v->pos.file) {
		free(v);
		return NULL;
	}
	return v;
}

struct lh_yaml *lh_yaml_scalar(const char *text, struct lh_pos pos)
{
	struct lh_yaml *v = value_new(LH_YAML_SCALAR, pos);

	if (v && !(v->text = strdup(text))) {
		lh_yaml_free(v);
		return NULL;
	}
	return v;
}

struct lh_yaml *lh_yaml_mapping(struct lh_pos pos)
{
	return value_new(LH_YAML_MAPPING, pos);
}

/* Appends an entry; takes value over. key_pos.file is set to the value's own. */
static int entry_add(struct lh_yaml *parent, const char *key, struct lh_pos key_pos,
		     struct lh_yaml *value)
{
	struct lh_yaml_entry *grown, *e;

	if (!value)
		return -1;
	grown = realloc(parent->entries, (parent->n_entries + 1) * sizeof(*grown));
	if (!grown) {
		lh_yaml_free(value);
		return -1;
	}
	parent->entries = grown;
	e = &grown[parent->n_entries];
	e->key = key ? strdup(key) : NULL;
	e->key_pos = key_pos;
	e->key_pos.file = value->pos.file;
	e->value = value;
	parent->n_entries++;
	return key && !e->key ? -1 : 0;
}

struct lh_yaml *lh_yaml_copy(const struct lh_yaml *v)
{
	struct lh_yaml *copy = value_new(v->kind, v->pos);

	if (!copy)
		return NULL;
	copy->quoted = v->quoted;
	if (v->text && !(copy->text = strdup(v->text)))
		goto fail;
	for (size_t i = 0; i < v->n_entries; i++)
		if (entry_add(copy, v->entries[i].key, v->entries[i].key_pos,
			      lh_yaml_copy(v->entries[i].value)) < 0)
			goto fail;
	return copy;
fail:
	lh_yaml_free(copy);
	return NULL;
}

static struct lh_yaml_entry *entry_find(const struct lh_yaml *map, const char *key)
{
	if (!map || map->kind != LH_YAML_MAPPING)
		return NULL;
	for (size_t i = 0; i < map->n_entries; i++)
		if (strcmp(map->entries[i].key, key) == 0)
			return &map->entries[i];
	return NULL;
}

struct lh_yaml *lh_yaml_get(const struct lh_yaml *map, const char *key)
{
	struct lh_yaml_entry *e = entry_find(map, key);

	return e ? e->value : NULL;
}

int lh_yaml_set(struct lh_yaml *map, const char *key, struct lh_yaml *value)
{
	struct lh_yaml_entry *e = entry_find(map, key);

	if (!value)
		return -1;
	if (!e)
		return entry_add(map, key, value->pos, value);
	lh_yaml_free(e->value);
	e->value = value;
	e->key_pos = value->pos;
	return 0;
}

int lh_yaml_merge(struct lh_yaml *map, const struct lh_yaml *base)
{
	for (size_t i = 0; i < base->n_entries; i++) {
		const struct lh_yaml_entry *b = &base->entries[i];
		struct lh_yaml *mine = lh_yaml_get(map, b->key);

		if (!mine) {
			if (lh_yaml_set(map, b->key, lh_yaml_copy(b->value)) < 0)
				return -1;
		} else if (mine->kind == LH_YAML_MAPPING && b->value->kind == LH_YAML_MAPPING) {
			if (lh_yaml_merge(mine, b->value) < 0)
				return -1;
		}
	}
	return 0;
}

static struct lh_pos pos_of(const struct loader *l, yaml_mark_t mark)
{
	return (struct lh_pos){l->name, (int)mark.line + 1, (int)mark.column + 1};
}

static struct lh_yaml *convert(struct loader *l, yaml_node_t *node, int depth);

/* Complains of a tag other than the one that libyaml gives to what has none. */
static void check_tag(struct loader *l, const yaml_node_t *node)
{
	static const char *const default_tags[] = {
		[YAML_SCALAR_NODE] = YAML_DEFAULT_SCALAR_TAG,
		[YAML_SEQUENCE_NODE] = YAML_DEFAULT_SEQUENCE_TAG,
		[YAML_MAPPING_NODE] = YAML_DEFAULT_MAPPING_TAG,
	};
	const char *tag = (const char *)node->tag;

	if (strcmp(tag, default_tags[node->type]) != 0)
		lh_diag_add(l->diag, pos_of(l, node->start_mark), NULL,
			    "tags (%.60s) are not supported", tag);
}

/* The text of a scalar; complains of a NUL, as what is behind it would be cut off unseen. */
static const char *scalar_text(struct loader *l, const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	if (strlen(text) != node->data.scalar.length)
		lh_diag_add(l->diag, pos_of(l, node->start_mark), NULL,
			    "a NUL character in a value or key");
	return text;
}

static int convert_mapping(struct loader *l, yaml_node_t *node, struct lh_yaml *v, int depth)
{
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
	     p++) {
		yaml_node_t *k = yaml_document_get_node(l->doc, p->key);
		yaml_node_t *val = yaml_document_get_node(l->doc, p->value);
		const char *key;

		if (v->n_entries == YAML_MAX_KEYS) {
			lh_diag_add(l->diag, pos_of(l, k->start_mark), NULL,
				    "more than %d keys in one mapping", YAML_MAX_KEYS);
			return 0;
		}
		if (k->type != YAML_SCALAR_NODE) {
			lh_diag_add(l->diag, pos_of(l, k->start_mark), NULL,
				    "a key is not a plain word");
			continue;
		}
		check_tag(l, k);
		key = scalar_text(l, k);
		if (strcmp(key, "<<") == 0) {
			lh_diag_add(l->diag, pos_of(l, k->start_mark), NULL,
				    "merge keys (<<) are not supported");
			continue;
		}
		if (entry_find(v, key)) {
			lh_diag_add(l->diag, pos_of(l, k->start_mark), NULL,
				    "key '%.60s' stands twice in this mapping", key);
			continue;
		}
		if (entry_add(v, key, pos_of(l, k->start_mark), convert(l, val, depth)) < 0)
			return -1;
	}
	return 0;
}

static int convert_sequence(struct loader *l, yaml_node_t *node, struct lh_yaml *v, int depth)
{
	for (yaml_node_item_t *i = node->data.sequence.items.start;
	     i < node->data.sequence.items.top; i++) {
		yaml_node_t *n = yaml_document_get_node(l->doc, *i);

		if (entry_add(v, NULL, pos_of(l, n->start_mark), convert(l, n, depth)) < 0)
			return -1;
	}
	return 0;
}

/* The tree below node, or NULL when a bound is passed or memory is out. */
static struct lh_yaml *convert(struct loader *l, yaml_node_t *node, int depth)
{
	static const enum lh_yaml_kind kinds[] = {
		[YAML_SCALAR_NODE] = LH_YAML_SCALAR,
		[YAML_SEQUENCE_NODE] = LH_YAML_SEQUENCE,
		[YAML_MAPPING_NODE] = LH_YAML_MAPPING,
	};
	struct lh_yaml *v;
	int r = 0;

	if (depth > YAML_MAX_DEPTH || ++l->n_values > YAML_MAX_VALUES) {
		/* once: NULL goes straight up to the root */
		lh_diag_add(l->diag, pos_of(l, node->start_mark), NULL,
			    "nested too deeply or too large (aliases of aliases?)");
		return NULL;
	}
	check_tag(l, node);
	v = value_new(kinds[node->type], pos_of(l, node->start_mark));
	if (!v)
		return NULL;
	if (node->type == YAML_SCALAR_NODE) {
		v->text = strdup(scalar_text(l, node));
		v->quoted = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
		r = v->text ? 0 : -1;
	} else if (node->type == YAML_MAPPING_NODE) {
		r = convert_mapping(l, node, v, depth + 1);
	} else {
		r = convert_sequence(l, node, v, depth + 1);
	}
	if (r < 0) {
		lh_yaml_free(v);
		return NULL;
	}
	return v;
}

/* Says what libyaml did not like. */
static void add_parser_problem(struct lh_diag *diag, const char *name, const yaml_parser_t *p)
{
	struct lh_pos pos = {name, (int)p->problem_mark.line + 1, (int)p->problem_mark.column + 1};

	lh_diag_add(diag, pos, NULL, "not YAML: %s%s%s", p->problem ? p->problem : "unreadable",
		    p->context ? " " : "", p->context ? p->context : "");
}

static int load_document(struct loader *l, yaml_parser_t *parser, struct lh_yaml **ret_root)
{
	yaml_document_t doc, next;
	yaml_node_t *root;
	int r = -1;

	if (!yaml_parser_load(parser, &doc)) {
		add_parser_problem(l->diag, l->name, parser);
		return -1;
	}
	l->doc = &doc;
	root = yaml_document_get_root_node(&doc);
	if (!root) {
		lh_diag_add(l->diag, (struct lh_pos){l->name, 1, 1}, NULL, "the file is empty");
		goto out;
	}
	*ret_root = convert(l, root, 0);
	if (!*ret_root)
		goto out;
	if (!yaml_parser_load(parser, &next)) {
		add_parser_problem(l->diag, l->name, parser);
		goto out;
	}
	root = yaml_document_get_root_node(&next);
	if (root)
		lh_diag_add(l->diag, pos_of(l, root->start_mark), NULL,
			    "a second document begins here; one file holds one document");
	yaml_document_delete(&next);
	r = 0;
out:
	yaml_document_delete(&doc);
	return r;
}

/* Whether more collections are opened in a row than may be nested: the parser's time for
 * those grows with the square of their number, before it gives any of them out. */
static bool is_too_deep(const char *text, size_t size)
{
	size_t open = 0;

	for (size_t i = 0; i < size; i++) {
		if (text[i] == '[' || text[i] == '{')
			open++;
		else if (!strchr(" \t\r\n", text[i]))
			open = 0;
		if (open > YAML_MAX_DEPTH)
			return true;
	}
	return false;
}

int lh_yaml_parse(const char *name, const char *text, size_t size, struct lh_yaml **ret_root,
		  struct lh_diag *diag, struct lh_error *err)
{
	struct loader l = {.name = name, .diag = diag};
	struct lh_yaml *root = NULL;
	yaml_parser_t parser;
	size_t before = diag->n_messages + diag->n_dropped;

	if (is_too_deep(text, size)) {
		lh_diag_add(diag, (struct lh_pos){name, 1, 1}, NULL, "nested too deeply");
		return lh_diag_check(diag, err);
	}
	if (!yaml_parser_initialize(&parser))
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", name);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
	load_document(&l, &parser, &root);
	yaml_parser_delete(&parser);
	if (diag->n_messages + diag->n_dropped == before && root) {
		*ret_root = root;
		return 0;
	}
	lh_yaml_free(root);
	if (diag->n_messages + diag->n_dropped == before)
		return lh_fail(err, LH_ESYS, ENOMEM, "read %s", name);
	return lh_diag_check(diag, err);
}

int lh_yaml_read(const char *path, struct lh_yaml **ret_root, struct lh_diag *diag,
		 struct lh_error *err)
{
	lh_cleanup_free char *text = NULL;
	size_t size;
	int r = lh_file_read(path, YAML_FILE_MAX_BYTES, &text, &size, err);

	if (r < 0)
		return r;
	return lh_yaml_parse(path, text, size, ret_root, diag, err);
}

static json_t *scalar_to_json(const struct lh_yaml *v)
{
	json_t *j;

	if (v->quoted)
		return json_string(v->text);
	if (strcmp(v->text, "true") == 0)
		return json_true();
	if (strcmp(v->text, "false") == 0)
		return json_false();
	j = json_loads(v->text, JSON_DECODE_ANY, NULL);
	if (json_is_number(j))
		return j;
	json_decref(j);
	return json_string(v->text);
}

json_t *lh_yaml_to_json(const struct lh_yaml *v)
{
	json_t *j;

	if (v->kind == LH_YAML_SCALAR)
		return scalar_to_json(v);
	j = v->kind == LH_YAML_MAPPING ? json_object() : json_array();
	for (size_t i = 0; i < v->n_entries; i++) {
		json_t *item = lh_yaml_to_json(v->entries[i].value);
		int r = v->kind == LH_YAML_MAPPING ? json_object_set_new(j, v->entries[i].key, item)
						   : json_array_append_new(j, item);

		if (r < 0) {
			json_decref(j);
			return NULL;
		}
	}
	return j;
}
