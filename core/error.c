/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and diagnostics. See error.h. */
#include "core/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lh_error_set(struct lh_error *err, int code, int sys, const char *file, int line,
		 const char *fmt, ...)
{
	va_list ap;
	size_t used;

	if (!err)
		return code;
	err->code = code;
	err->sys = sys;
	err->file = file;
	err->line = line;
	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	used = strlen(err->message);
	if (sys > 0 && code != LH_ESIGNAL)
		snprintf(err->message + used, sizeof(err->message) - used, ": %s", strerror(sys));
	return code;
}

int lh_error_prefix(struct lh_error *err, const char *fmt, ...)
{
	char old[LH_ERROR_MESSAGE_MAX];
	va_list ap;
	size_t used;

	if (!err)
		return LH_ERUN;
	memcpy(old, err->message, sizeof(old));
	va_start(ap, fmt);
	vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	used = strlen(err->message);
	snprintf(err->message + used, sizeof(err->message) - used, ": %s", old);
	return err->code;
}

int lh_error_exit_status(const struct lh_error *err)
{
	switch (err->code) {
	case LH_OK:
		return 0;
	case LH_EUSAGE:
		return 2;
	case LH_EINPUT:
		return 3;
	case LH_EENV:
		return 4;
	case LH_EMEASURE:
	case LH_EUNFIT:
		return 6;
	case LH_ESIGNAL:
		return 128 + err->sys;
	default:
		return 1;
	}
}

void lh_diag_done(struct lh_diag *diag)
{
	for (size_t i = 0; i < diag->n_messages; i++)
		free(diag->messages[i]);
	free(diag->messages);
	memset(diag, 0, sizeof(*diag));
}

/* Appends text, which it then owns; drops it where there is no room. */
static void diag_push(struct lh_diag *diag, char *text)
{
	char **grown;

	if (diag->n_messages >= LH_DIAG_MAX || !text)
		goto drop;
	grown = realloc(diag->messages, (diag->n_messages + 1) * sizeof(*grown));
	if (!grown)
		goto drop;
	diag->messages = grown;
	diag->messages[diag->n_messages++] = text;
	return;
drop:
	diag->n_dropped++;
	free(text);
}

void lh_diag_add(struct lh_diag *diag, struct lh_pos pos, const char *key_path, const char *fmt,
		 ...)
{
	char *what = NULL;
	char *text = NULL;
	char where[32] = "";
	va_list ap;
	bool has_key = key_path && *key_path;

	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	if (pos.line > 0)
		snprintf(where, sizeof(where), ":%d:%d: ", pos.line, pos.col);
	if (what && asprintf(&text, "%s%s%s%s%s",
			     pos.line <= 0 ? ""
			     : pos.file	   ? pos.file
					   : "-",
			     where, has_key ? key_path : "", has_key ? ": " : "", what) < 0)
		text = NULL;
	free(what);
	diag_push(diag, text);
}

int lh_diag_check(const struct lh_diag *diag, struct lh_error *err)
{
	if (!diag->n_messages && !diag->n_dropped)
		return 0;
	lh_fail(err, LH_EINPUT, 0, "%zu error%s in the input", diag->n_messages + diag->n_dropped,
		diag->n_messages + diag->n_dropped == 1 ? "" : "s");
	return LH_EINPUT;
}
