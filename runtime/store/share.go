package store

import "fmt"

// MaxShare is the largest share of a fair key.
const MaxShare = 100

// Pace is the distance between the positions of two successive runs of a fairness key with share 1.
// It is divisible by all shares up to 10; larger shares, up to MaxShare, are approximated within
// one percent.
const Pace = 5040

// PassAfter returns the lowest position of the next run of a fairness key after a run at the given
// position.
func PassAfter(place int64, share int) int64 {
	return place + int64(Pace+share/2)/int64(max(share, 1))
}

// CheckShare returns an *InvalidError if the fairness key is not a valid name, or if the share is
// outside 0 to MaxShare or is given without a key.
func CheckShare(fair string, share int) error {
	switch {
	case share < 0 || share > MaxShare:
		return &InvalidError{What: "share of fair key " + fair, Value: fmt.Sprint(share), Reason: fmt.Sprintf("is not from 1 to %d", MaxShare)}
	case share > 0 && fair == "":
		return &InvalidError{What: "share", Value: fmt.Sprint(share), Reason: "has no fair key"}
	}
	return CheckName("fair key", fair)
}

// Weight returns the share of the run, or 0 if it has no fairness key.
func (c *Create) Weight() int {
	if c.Fair == "" {
		return 0
	}
	return max(c.Share, 1)
}

// FlowID identifies the ready runs of a route and a priority that have fairness keys.
type FlowID struct {
	Route    Route
	Priority int
}
