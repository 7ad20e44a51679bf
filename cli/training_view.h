/* SPDX-License-Identifier: Apache-2.0 */
/* A training as a person sees it: what its events say, kept for the tables and told on the way. */
#ifndef LH_CLI_TRAINING_VIEW_H
#define LH_CLI_TRAINING_VIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "collect/table.h"
#include "core/error.h"

/* The columns of loss.csv. */
enum lh_loss_column {
	LH_LOSS_STEP,
	LH_LOSS_EPOCH,
	LH_LOSS_LR,
	LH_LOSS_LOSS,
	LH_LOSS_ACCURACY,
	LH_LOSS_GRAD_NORM,
	LH_LOSS_TEST_LOSS,
	LH_LOSS_TEST_ACCURACY,
	LH_LOSS_BITS_PER_BYTE,
	LH_LOSS_WORD_ACCURACY,
	LH_LOSS_N_COLUMNS,
};

struct lh_training_view {
	bool is_silent; /* nothing on standard output before the end */
	bool quiet;	/* no progress on standard error */
	bool on_terminal;
	struct lh_table rows;	       /* of loss.csv */
	double row[LH_LOSS_N_COLUMNS]; /* the one that may still get test columns */
	bool has_row;
	double loss_sum, right_sum, n_counted; /* of training since the last line */
	bool has_head;
	json_t *begin, *test, *end; /* the last events of their kind; owned; NULL: none yet */
	int64_t begin_ns, next_ns;  /* of progress */
};

void lh_training_view_init(struct lh_training_view *view, bool is_silent, bool quiet);
void lh_training_view_done(struct lh_training_view *view);

/* Takes an event; context is the view. LH_ERUN where it is none that is known. */
int lh_training_view_event(void *context, const json_t *event, struct lh_error *err);

/* Clears the changing line. */
void lh_training_view_clear(void *context);

/* After the last event: completes the table, and prints what the training came to. */
int lh_training_view_finish(struct lh_training_view *view, struct lh_error *err);

#endif
