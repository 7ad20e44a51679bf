/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: a code, what the system said, a message for the user, and where the
 * input was wrong. Functions that can fail return 0 or a negative LH_E code and
 * take a struct lh_error as their last parameter. Nothing here prints or exits.
 */
#ifndef LH_CORE_ERROR_H
#define LH_CORE_ERROR_H

#include <stddef.h>

enum lh_code {
	LH_OK = 0,
	LH_ESYS = -1,	  /* a system call or library failed */
	LH_EUSAGE = -2,	  /* the command line is wrong */
	LH_EINPUT = -3,	  /* a scenario or catalog is wrong */
	LH_EENV = -4,	  /* this machine lacks something */
	LH_ERUN = -5,	  /* a run failed */
	LH_EMEASURE = -6, /* a measurement missed its target */
	LH_ESIGNAL = -7,  /* ended by a signal; sys holds its number */
	LH_EUNFIT = -8,	  /* this machine is not fit to measure in real time */
};

enum { LH_ERROR_MESSAGE_MAX = 1024 };

/* One failure. All zero means none. Plain data; nothing to free. */
struct lh_error {
	int code; /* enum lh_code */
	int sys;  /* errno or library code, 0 if none */
	char message[LH_ERROR_MESSAGE_MAX];
	const char *file; /* source file and line that first knew */
	int line;
};

/*
 * Fills err (which may be NULL) and returns code, so that a caller can write
 * `return lh_fail(err, LH_ESYS, errno, "open %s", path);`. With a positive sys the
 * system's text for it is appended to the message.
 */
#define lh_fail(err, code, sys, ...) lh_error_set(err, code, sys, __FILE__, __LINE__, __VA_ARGS__)

int lh_error_set(struct lh_error *err, int code, int sys, const char *file, int line,
		 const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* Puts "context: " before err's message and returns err's code (LH_ERUN if err is NULL). */
int lh_error_prefix(struct lh_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The exit status of the command for a code: 0 done, 1, 2, 3, 4, 6, or 128 + signal. */
int lh_error_exit_status(const struct lh_error *err);

/* Where a piece of input stands: file (borrowed, may be NULL), line and column from 1. */
struct lh_pos {
	const char *file;
	int line;
	int col;
};

/* All that is wrong with an input, collected so that it can be shown at once. */
struct lh_diag {
	char **messages; /* owned; "file:line:col: path.to.key: what; expected ..." */
	size_t n_messages;
	size_t n_dropped; /* beyond LH_DIAG_MAX */
};

enum { LH_DIAG_MAX = 100 };

void lh_diag_done(struct lh_diag *diag);

/* Adds one message about the value at pos (line 0: nowhere); key_path may be "" or NULL. */
void lh_diag_add(struct lh_diag *diag, struct lh_pos pos, const char *key_path, const char *fmt,
		 ...) __attribute__((format(printf, 4, 5)));

/* 0 when diag is empty; otherwise LH_EINPUT, with their number in err; the messages stay in diag.
 */
int lh_diag_check(const struct lh_diag *diag, struct lh_error *err);

#endif
