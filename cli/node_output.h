/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs in nodes say, from the files that it is kept in to standard output and error:
 * of one node exactly, of several line by line under the node's name.
 */
#ifndef LH_CLI_NODE_OUTPUT_H
#define LH_CLI_NODE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct lh_node_output;

/* run_dir and the nodes' names (SITE/N) must outlive it. Owned by the caller. */
int lh_node_output_new(const char *run_dir, const char *const *nodes, size_t n,
		       struct lh_node_output **ret_output, struct lh_error *err);

/* Passes on what is new. context is a struct lh_node_output. */
void lh_node_output_tick(void *context);

/* Passes on the rest, unfinished lines too, and frees it. NULL is fine. */
void lh_node_output_finish(struct lh_node_output *output);

#endif
