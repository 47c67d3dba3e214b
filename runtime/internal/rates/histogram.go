package rates

import (
	"math"
	"slices"
	"time"
)

// The scale of histograms is a part of the format of reports: workers of different releases must use
// the same scale. Bucket k contains the durations up to 100 µs · 2^(k/4), which are not in a lower
// bucket. The last bucket contains all longer durations. A bound exceeds the preceding one by 19 %.
const (
	firstBound = 100 * time.Microsecond
	perOctave  = 4
	buckets    = 121
)

// bounds contains the upper bounds of all buckets except the last one. The greatest is 25 hours.
var bounds = func() (all [buckets - 1]time.Duration) {
	for k := range all {
		all[k] = time.Duration(float64(firstBound) * math.Exp2(float64(k)/perOctave))
	}
	return all
}()

// histogram contains the number of durations by bucket.
type histogram [buckets]uint32

func (h *histogram) add(d time.Duration) {
	k, _ := slices.BinarySearch(bounds[:], d)
	h[k]++
}

func (h *histogram) merge(o *histogram) {
	for k, n := range o {
		h[k] += n
	}
}

// count returns the number of durations.
func (h *histogram) count() (n int) {
	for _, c := range h {
		n += int(c)
	}
	return n
}

// quantile returns the duration that the fraction q of the durations does not exceed. It assumes
// that the durations of a bucket are evenly distributed. For the last bucket it returns the lower
// bound of the bucket. It returns 0 for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(math.Ceil(q*float64(h.count())), 1)
	below := 0.0
	for k, n := range h {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		if k == len(bounds) {
			return bounds[k-1]
		}
		lower := time.Duration(0)
		if k > 0 {
			lower = bounds[k-1]
		}
		return lower + time.Duration(float64(bounds[k]-lower)*(rank-below)/float64(n))
	}
	return 0
}
