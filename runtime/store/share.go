package store

import "fmt"

// MaxShare is the largest share of a fair key.
const MaxShare = 100

// Pace is how far apart the places of two runs are that come one after the other with a
// fair key of share 1. All shares up to 10 divide it; those up to MaxShare are met within a
// hundredth.
const Pace = 5040

// PassAfter returns the lowest place of the next run of a fair key, after one with that place.
func PassAfter(place int64, share int) int64 {
	return place + int64(Pace+share/2)/int64(max(share, 1))
}

// CheckShare returns an *InvalidError if a fair key is no name, or its share is not from 0 to
// MaxShare, or is given without a key.
func CheckShare(fair string, share int) error {
	switch {
	case share < 0 || share > MaxShare:
		return &InvalidError{What: "share of fair key " + fair, Value: fmt.Sprint(share), Reason: fmt.Sprintf("is not from 1 to %d", MaxShare)}
	case share > 0 && fair == "":
		return &InvalidError{What: "share", Value: fmt.Sprint(share), Reason: "has no fair key"}
	}
	return CheckName("fair key", fair)
}

// Weight returns the share of the run with its fair key; 0: it has none.
func (c *Create) Weight() int {
	if c.Fair == "" {
		return 0
	}
	return max(c.Share, 1)
}

// FlowID names a flow: the ready runs of a route and a priority that have fair keys.
type FlowID struct {
	Route    Route
	Priority int
}
