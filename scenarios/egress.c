/* SPDX-License-Identifier: Apache-2.0 */
/* Egress classes and the look-up of prices. See scenario.h; the rule is in docs/formats.md. */
#include <string.h>

#include "scenarios/scenario.h"

static const char *const class_names[LH_N_EGRESS_CLASSES] = {
	[LH_EGRESS_SAME_ZONE] = "same-zone",	   [LH_EGRESS_INTER_ZONE] = "inter-zone",
	[LH_EGRESS_INTER_REGION] = "inter-region", [LH_EGRESS_INTER_CONTINENT] = "inter-continent",
	[LH_EGRESS_OCEANIA] = "oceania",	   [LH_EGRESS_ON_PREMISE] = "on-premise",
	[LH_EGRESS_INSIDE_NODE] = "inside-node",
};

const char *lh_egress_class_name(enum lh_egress_class class)
{
	return class_names[class];
}

static bool same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

enum lh_egress_class lh_egress_class_of(const struct lh_site *from, const struct lh_site *to)
{
	if (strcmp(from->provider, "on-premise") == 0)
		return LH_EGRESS_ON_PREMISE;
	if (strcmp(from->name, to->name) == 0)
		return LH_EGRESS_SAME_ZONE;
	if (from->continent != to->continent)
		return from->continent == LH_OCEANIA || to->continent == LH_OCEANIA
			       ? LH_EGRESS_OCEANIA
			       : LH_EGRESS_INTER_CONTINENT;
	if (strcmp(from->provider, to->provider) == 0 && same_text(from->region, to->region))
		return same_text(from->zone, to->zone) ? LH_EGRESS_SAME_ZONE : LH_EGRESS_INTER_ZONE;
	return LH_EGRESS_INTER_REGION;
}

static const struct lh_egress_prices *provider_find(const struct lh_prices *prices,
						    const char *provider)
{
	for (size_t i = 0; i < prices->n_egress; i++)
		if (strcmp(prices->egress[i].name, provider) == 0)
			return &prices->egress[i];
	return NULL;
}

static struct lh_byte_price class_price(const struct lh_egress_prices *e,
					enum lh_egress_class class, int continent)
{
	switch (class) {
	case LH_EGRESS_SAME_ZONE:
		return e->same_zone;
	case LH_EGRESS_INTER_ZONE:
		return e->inter_zone;
	case LH_EGRESS_INTER_REGION:
		return e->inter_region.by_continent[continent];
	case LH_EGRESS_OCEANIA:
		return e->oceania;
	default:
		return e->inter_continent;
	}
}

int lh_egress_price_find(const struct lh_prices *prices, const struct lh_site *from,
			 const struct lh_site *to, struct lh_byte_price *ret_price,
			 const char **ret_source, struct lh_error *err)
{
	const struct lh_egress_prices *e = provider_find(prices, from->provider);
	enum lh_egress_class class = lh_egress_class_of(from, to);
	struct lh_byte_price price;

	if (!e && class == LH_EGRESS_ON_PREMISE) {
		*ret_price = (struct lh_byte_price){0, 1000000000};
		*ret_source = "on premise: nothing charged";
		return 0;
	}
	if (!e)
		return lh_fail(err, LH_EINPUT, 0,
			       "price catalog %s has no egress prices of provider '%s'",
			       prices->name, from->provider);
	price = class_price(e, class, from->continent);
	if (!price.per_bytes)
		return lh_fail(err, LH_EINPUT, 0,
			       "price catalog %s has no %s egress price of provider '%s' "
			       "(%s to %s)",
			       prices->name, class_names[class], from->provider, from->name,
			       to->name);
	*ret_price = price;
	*ret_source = e->source ? e->source : prices->source;
	return 0;
}

const struct lh_vm_price *lh_vm_price_find(const struct lh_prices *prices, const char *machine,
					   const char *site)
{
	const struct lh_vm_price *everywhere = NULL;

	for (size_t i = 0; i < prices->n_vm; i++) {
		const struct lh_vm_price *p = &prices->vm[i];

		if (!p->machine || strcmp(p->machine, machine) != 0)
			continue;
		if (p->site && strcmp(p->site, site) == 0)
			return p;
		if (!p->site)
			everywhere = p;
	}
	return everywhere;
}

const struct lh_storage_price *lh_storage_price_find(const struct lh_prices *prices,
						     const char *name)
{
	for (size_t i = 0; i < prices->n_storage; i++)
		if (strcmp(prices->storage[i].name, name) == 0)
			return &prices->storage[i];
	return NULL;
}
