package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// LineMode says whether claims look at a line.
type LineMode uint8

// The modes.
const (
	LineOpen   LineMode = 0 // they do
	LineShut   LineMode = 1 // they did, in vain: it will be called
	LineCalled LineMode = 2 // they do, and it keeps its turn until then
)

// WaitLine is a line as it stands. Its turn is that of its first run.
type WaitLine struct {
	ID       string
	First    event.RunID
	Priority int
	Place    int64
	Mode     LineMode
	// Until is, in milliseconds, when a called line loses its turn, and when a shut one may
	// go by the rates of its limits; 0: that is not what it waits for.
	Until int64
	// Stands has a bit for each use at which the line counts: there it holds back the lines
	// after it. An open line counts nowhere, a called one at all its uses that are not local.
	Stands uint16
	// Owed is set for a shut line that a nested run has passed: see owe.
	Owed bool
}

func (l *WaitLine) before(other *WaitLine) bool {
	if l.Priority != other.Priority {
		return l.Priority > other.Priority
	}
	return l.Place < other.Place
}

// lookAgain returns when somebody must look again at a line that may not go: when its rates let
// it, and at a nested one after CallTime at the latest; 0: once it is called.
//
// A nested line is free, too, once the one before it comes to lack a second limit, and nothing
// happens at its own limits then. Nor was it told before that there is room for it: a call ends
// with the one before it if that waits for nothing else. To look for such lines whenever a
// limit has less room would cost each grant of which others wait.
func (o *Op[R, S]) lookAgain(uses []store.Use, until int64) int64 {
	if !uses[0].Nested {
		return until
	}
	latest := o.Tx.Now().Add(CallTime).UnixMilli()
	if until == 0 {
		return latest
	}
	return min(until, latest)
}

// keptBack reports whether a line before it keeps back a nested one at a limit: one that waits
// for nothing else.
//
// What else that waits for may be held by the run above the nested one, to its end, which
// comes after that of the nested one: if it was kept back, nobody would ever go. A line that
// waits for this limit only, waits for those that hold it; so nobody waits in a circle
// unless those do that hold permits while they wait, and a nested run passes only who could
// not have gone in its place. The others pass nobody: so the line whose turn it is at the
// limit that is held above comes to wait for nothing else in the end. [L5]
func (o *Op[R, S]) keptBack(line *WaitLine, id store.LimitID) (bool, error) {
	kept, err := o.Tx.Limits().KeptLines(id, VainTries)
	if err != nil {
		return false, err
	}
	for i := range kept {
		if kept[i].ID == line.ID || !kept[i].before(line) {
			break
		}
		_, uses, err := o.first(&kept[i])
		if err != nil {
			return false, err
		}
		limits, err := o.limitsOf(uses)
		k := lackOf(o.Tx.Now(), uses, limits)
		if err != nil || k.only(id) || k.limits == 0 && kept[i].Mode == LineCalled {
			return true, err
		}
	}
	return false, nil
}

// shut shuts a line whose first run was asked for in vain.
func (o *Op[R, S]) shut(line WaitLine, now standing, uses []store.Use, r R, s *Run[S]) error {
	if s.WaitsSince == 0 {
		s.WaitsSince = o.Tx.Now().UnixMilli()
		if err := o.Tx.Save(r, *s); err != nil {
			return err
		}
	}
	was := line.Stands
	line.Mode, line.Until, line.Stands = LineShut, now.until, now.at
	if err := o.saveTurn(line, r); err != nil {
		return err
	}
	return o.look(changedAt(uses, was, line.Stands))
}

// first returns the first run of a line, and what it uses.
func (o *Op[R, S]) first(line *WaitLine) (r R, uses []store.Use, err error) {
	if r, err = o.Tx.Run(line.First); err != nil {
		return r, nil, err
	}
	uses, err = o.Tx.Limits().Uses(r)
	return r, uses, err
}

// saveTurn stores a line. If somebody must look at it earlier than at all else, that is
// told. [K3]
func (o *Op[R, S]) saveTurn(line WaitLine, first R) error {
	if line.Until != 0 {
		earliest, err := o.Tx.NextDue()
		if err != nil {
			return err
		}
		if earliest == 0 || line.Until < earliest {
			o.Changes.Turns = append(o.Changes.Turns, Turn[R]{first, line.Until})
		}
	}
	return o.Tx.Limits().SaveLine(line)
}

// Turn lets the time of a line come, once the store has found that it has: a called line that nobody has
// claimed from loses its turn, but not its place; a rate may have room again. [L7]
func (o *Op[R, S]) Turn(id string) error {
	line, err := o.Tx.Limits().WaitLine(id)
	if err != nil || line.First == "" || line.Until == 0 || line.Until > o.Tx.Now().UnixMilli() {
		return err
	}
	if line.Mode == LineCalled {
		line.Mode, line.Stands = LineOpen, 0
	}
	line.Until = 0
	if err := o.Tx.Limits().SaveLine(line); err != nil {
		return err
	}
	first, uses, err := o.first(&line)
	if err != nil {
		return err
	}
	if line.Mode == LineShut { // it is not the first shut one everywhere, perhaps
		_, changed, err := o.callLine(line, first, uses)
		if err != nil {
			return err
		}
		if err := o.look(changed); err != nil {
			return err
		}
	}
	return o.call(uses)
}
