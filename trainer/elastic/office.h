/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's office: a thread of rank 0 that moves notices between the members' connections
 * and the state machine of coordinator.h. A connection that brings what is no notice, or cannot be,
 * ends, and with it its member's part; nobody else notices.
 */
#ifndef LH_TRAINER_ELASTIC_OFFICE_H
#define LH_TRAINER_ELASTIC_OFFICE_H

#include <jansson.h>

#include "trainer/elastic/coordinator.h"
#include "trainer/traffic.h"

struct lh_office;

/* config's arrays stay until close; traffic is borrowed. *ret_office is given to lh_office_close.
 * LH_ESYS. */
int lh_office_open(const struct lh_coordinator_config *config, struct lh_traffic *traffic,
		   struct lh_office **ret_office, struct lh_error *err);

/* Takes over a connection on which JOIN is to come; rank 0's own is not counted as traffic. For any
 * thread. */
void lh_office_admit(struct lh_office *office, int fd, uint32_t rank);

/* The next decision as an event, its fields owned by the caller; NULL: none. */
const char *lh_office_take_event(struct lh_office *office, json_t **ret_fields);

/* After the training's end: waits until all members know of it, and a while longer for those who
 * come just then; bounded by their heartbeats. */
void lh_office_finish(struct lh_office *office);

void lh_office_close(struct lh_office *office); /* NULL is fine */

#endif
