/* SPDX-License-Identifier: Apache-2.0 */
/* What catalogs hold beside networks: machines, models, profiles, prices. Plain data. */
#ifndef LH_SCENARIOS_MACHINE_H
#define LH_SCENARIOS_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "core/units.h"
#include "scenarios/network.h"

struct lh_nic {
	int64_t up_bps;
	int64_t down_bps;
	char *source;
};

/* The network between the GPUs of one machine; absent where bandwidth_bps is not above 0. */
struct lh_inner {
	int64_t bandwidth_bps; /* of one GPU, in each direction */
	int64_t delay_ns;      /* one way, between any two */
	char *source;
};

struct lh_tcp {
	char *congestion_control;
	int64_t rmem_max_bytes;
	int64_t wmem_max_bytes;
};

/* What a host itself costs when it trains one model. */
struct lh_host_cost {
	char *name; /* model, or "default" */
	int64_t accumulate_ns;
	int64_t averaging_bps;
	int64_t apply_ns;
	char *source;
};

struct lh_machine {
	char *name;
	char *about;
	char *provider;
	int64_t vcpus;
	int64_t memory_bytes;
	char *gpu;
	int64_t gpus;
	struct lh_nic nic;
	struct lh_inner inner;
	struct lh_tcp tcp;
	struct lh_host_cost *host;
	size_t n_host;
	char *source;
};

struct lh_model {
	char *name;
	char *about;
	char *domain;
	int64_t parameters;
	int64_t bytes_per_sample;
	char *dataset;
	char *source;
};

struct lh_profile_entry {
	char *name; /* model */
	int64_t micro_batch;
	double samples_per_s; /* wall clock, one GPU (or rank) alone */
	double variation_ratio;
	double paper_samples_per_s; /* -1: unknown */
	char *source;
};

struct lh_profile {
	char *name; /* GPU */
	char *about;
	struct lh_profile_entry *models;
	size_t n_models;
};

struct lh_vm_price {
	char *machine;
	char *site;			   /* NULL: everywhere */
	int64_t spot_usd_micro_per_h;	   /* -1: not offered */
	int64_t on_demand_usd_micro_per_h; /* -1: not offered */
	char *source;
};

struct lh_inter_region_prices {
	struct lh_byte_price by_continent[LH_N_CONTINENTS]; /* per_bytes 0: not priced */
};

struct lh_egress_prices {
	char *name; /* provider of the sending site */
	struct lh_byte_price same_zone;
	struct lh_byte_price inter_zone;
	struct lh_inter_region_prices inter_region;
	struct lh_byte_price inter_continent;
	struct lh_byte_price oceania;
	char *source;
};

struct lh_storage_price {
	char *name;
	struct lh_byte_price egress;
	struct lh_byte_price storage_per_month;
	char *source;
};

struct lh_prices {
	char *name;
	char *date;
	char *source;
	struct lh_vm_price *vm;
	size_t n_vm;
	struct lh_egress_prices *egress;
	size_t n_egress;
	struct lh_storage_price *storage;
	size_t n_storage;
};

#endif
