package protocol

import "github.com/flowgen/flowgen/runtime/store"

// label gives a run the label that a commit says: then it is found as one of that group, and no longer as one of the
// group before. A run comes into a group if it was not in it. [T1] [T2]
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

// enterTrouble records that a run comes into a group at a time. When there is a new one some are forgotten.
func (o *Op[R, S]) enterTrouble(t store.Trouble, at int64) error {
	fresh, err := o.Tx.EnterTrouble(t, at)
	if err != nil || !fresh {
		return err
	}
	return o.Tx.ForgetTroubles(o.Tx.Now().Add(-store.TroubleKept).UnixMilli(), forgottenAtOnce) // [T3]
}

// forgottenAtOnce is how many groups are forgotten when there is a new one: so there are ever fewer that nobody needs.
const forgottenAtOnce = 2
