/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member's link to the coordinator: a thread that tells it that the member lives, sends what the
 * member says, and puts into the mailbox what comes. Silence on the other side ends the link.
 */
#ifndef LH_TRAINER_ELASTIC_LINK_H
#define LH_TRAINER_ELASTIC_LINK_H

#include "trainer/elastic/mailbox.h"
#include "trainer/traffic.h"
#include "trainer/transport/comm.h"

struct lh_link_config {
	uint32_t self;
	int64_t heartbeat_ns;
	struct lh_traffic *traffic; /* as the next two, borrowed; NULL: not counted */
	struct lh_mailbox *mailbox;
	struct lh_comm *comm; /* waits in it end when their round is void */
};

struct lh_link;

/* Takes over the connected socket. *ret_link is given to lh_link_close. LH_ESYS. */
int lh_link_open(const struct lh_link_config *config, int fd, struct lh_link **ret_link,
		 struct lh_error *err);

/* Sends a notice without members, soon. LH_ESYS. */
int lh_link_send(struct lh_link *link, const struct lh_notice *notice, struct lh_error *err);

/* Sends what is still to be sent, as far as the socket takes it, and ends. NULL is fine. */
void lh_link_close(struct lh_link *link);

#endif
