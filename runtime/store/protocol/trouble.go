package protocol

import "github.com/flowgen/flowgen/runtime/store"

// label gives a run the label of a commit. From then on the run is found in that failure group, and
// not in its previous one. A run enters a group if it was not in it. [T1] [T2]
func (o *Op[R, S]) label(s *Run[S], c *store.Commit) error {
	t, set := c.Label()
	if !set || t.Group == s.Group {
		return nil
	}
	s.Group = t.Group
	if s.Group == "" {
		return nil
	}
	return o.enterTrouble(t, o.Tx.Now().UnixMilli())
}

// enterTrouble records that a run enters a failure group at a time. A new group causes some old
// ones to be removed.
func (o *Op[R, S]) enterTrouble(t store.Trouble, at int64) error {
	fresh, err := o.Tx.EnterTrouble(t, at)
	if err != nil || !fresh {
		return err
	}
	return o.Tx.ForgetTroubles(o.Tx.Now().Add(-store.TroubleKept).UnixMilli(), forgottenAtOnce) // [T3]
}

// forgottenAtOnce is how many old groups are removed for each new one. It is more than one, so that
// the number of unused groups decreases.
const forgottenAtOnce = 2
