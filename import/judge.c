/* SPDX-License-Identifier: Apache-2.0 */
/* Tells window limits from link limits. See import_internal.h. */
#include <math.h>
#include <stdlib.h>

#include "import/import_internal.h"

/* More streams carry more than this times what few carry: it was not the link that held them. */
static const double MORE_RATIO = 1.2;
/* A stream among many that carries less than this share of one among few has met the link. */
static const double SHARE_RATIO = 0.8;

double lh_import_window(double payload, double duration_s, double rtt_s, double initial)
{
	/* the right side falls until here, so that it has one solution below */
	double high = (payload + initial) * log(2), low = initial;
	double round_trips = duration_s / rtt_s;

	if (payload / round_trips <= initial)
		return payload / round_trips;
	if (!(high > low) ||
	    payload / high + log2(high / initial) - 1 + initial / high > round_trips)
		return (double)NAN;
	for (int i = 0; i < 200; i++) {
		double w = (low + high) / 2;

		if (payload / w + log2(w / initial) - 1 + initial / w > round_trips)
			low = w;
		else
			high = w;
	}
	return high;
}

/* The window of one stream of a rate. */
static double window_of(const struct im_rate *rate, double rtt_s, double initial)
{
	double stream_bytes_per_s = rate->bps / 8 / (double)rate->streams;
	double duration_s = (double)rate->duration_ns / 1e9;

	if (rate->steady)
		return stream_bytes_per_s * rtt_s;
	return lh_import_window(stream_bytes_per_s * duration_s, duration_s, rtt_s, initial);
}

double im_steady_bps(const struct im_rate *rate, double rtt_s, double initial)
{
	double window = rtt_s > 0 ? window_of(rate, rtt_s, initial) : (double)NAN;

	return isnan(window) ? rate->bps : window * 8 / rtt_s * (double)rate->streams;
}

/* Means over the rates with that many streams. */
struct mean {
	double bps, steady_bps, window, scatter;
};

static struct mean mean_of(const struct im_rate *const *rates, size_t n, int64_t streams,
			   double rtt_s, double initial)
{
	struct mean m = {.scatter = -1};
	double squares = 0, sd = -1;
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (rates[i]->streams != streams)
			continue;
		k++;
		m.bps += rates[i]->bps;
		squares += rates[i]->bps * rates[i]->bps;
		m.steady_bps += im_steady_bps(rates[i], rtt_s, initial);
		m.window += rtt_s > 0 ? window_of(rates[i], rtt_s, initial) : (double)NAN;
		sd = fmax(sd, rates[i]->sd_bps);
	}
	m.bps /= (double)k;
	m.steady_bps /= (double)k;
	m.window /= (double)k;
	if (k > 1)
		sd = fmax(sd, sqrt(fmax(0, squares / (double)k - m.bps * m.bps) * (double)k /
				   (double)(k - 1)));
	if (sd >= 0)
		m.scatter = sd / m.bps;
	return m;
}

void im_judge(const struct im_rate *const *rates, size_t n, double rtt_s, double initial,
	      struct im_judged *ret)
{
	struct im_judged j = {.few = rates[0]->streams, .many = rates[0]->streams};
	bool seen[LH_IMPORT_STREAMS_MAX + 1] = {false};
	struct mean few;

	for (size_t i = 1; i < n; i++) {
		j.few = rates[i]->streams < j.few ? rates[i]->streams : j.few;
		j.many = rates[i]->streams > j.many ? rates[i]->streams : j.many;
	}
	few = mean_of(rates, n, j.few, rtt_s, initial);
	j.few_bps = few.bps;
	j.few_steady_bps = few.steady_bps;
	j.window_bytes = few.window;
	j.scatter_ratio = few.scatter;
	j.many_bps = mean_of(rates, n, j.many, rtt_s, initial).bps;
	for (size_t i = 0; i < n; i++) {
		struct mean m;

		if (seen[rates[i]->streams])
			continue;
		seen[rates[i]->streams] = true;
		m = mean_of(rates, n, rates[i]->streams, rtt_s, initial);
		if (m.steady_bps > j.largest_steady_bps) {
			j.largest_bps = m.bps;
			j.largest_steady_bps = m.steady_bps;
			j.largest_streams = rates[i]->streams;
		}
	}
	j.saturates = j.largest_steady_bps / (double)j.largest_streams <
		      SHARE_RATIO * j.few_steady_bps / (double)j.few;
	if (j.few == j.many)
		j.limit = IM_LIMIT_UNKNOWN;
	else
		j.limit = j.largest_steady_bps > MORE_RATIO * j.few_steady_bps ? IM_LIMIT_WINDOW
									       : IM_LIMIT_LINK;
	*ret = j;
}
