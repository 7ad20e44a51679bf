/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleanup attributes: a local variable marked with one of these releases what it
 * holds when it leaves scope. lh_steal() hands the value over instead.
 */
#ifndef LH_CORE_CLEANUP_H
#define LH_CORE_CLEANUP_H

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void lh_cleanup_free_p(void *p)
{
	free(*(void **)p);
}

static inline void lh_cleanup_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void lh_cleanup_fclose_p(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void lh_cleanup_closedir_p(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void lh_cleanup_json_p(json_t **j)
{
	json_decref(*j);
}

#define lh_cleanup_free __attribute__((cleanup(lh_cleanup_free_p)))
#define lh_cleanup_close __attribute__((cleanup(lh_cleanup_close_p)))
#define lh_cleanup_fclose __attribute__((cleanup(lh_cleanup_fclose_p)))
#define lh_cleanup_closedir __attribute__((cleanup(lh_cleanup_closedir_p)))
#define lh_cleanup_json __attribute__((cleanup(lh_cleanup_json_p)))

/* Yields the pointer in *p and leaves NULL there. */
#define lh_steal(p)                         \
	__extension__({                     \
		__typeof__(*(p)) v_ = *(p); \
		*(p) = NULL;                \
		v_;                         \
	})

#endif
