/* SPDX-License-Identifier: Apache-2.0 */
/* What training begins with where a person has said nothing. */
#ifndef LH_CLI_TRAIN_DEFAULTS_H
#define LH_CLI_TRAIN_DEFAULTS_H

/* Of one family of models. */
struct lh_train_defaults {
	const char *family;
	const char *data; /* a synthetic kind */
	const char *optimizer;
	double lr;
	double momentum; /* 0: the optimizer's default */
	double weight_decay;
	double clip_norm; /* 0: none */
	const char *schedule;
	double warm_up_ratio; /* of all steps */
	int batch;	      /* samples */
	int epochs;
};

/* Those of a family, which has an entry. */
const struct lh_train_defaults *lh_train_defaults_of(const char *family);

#endif
