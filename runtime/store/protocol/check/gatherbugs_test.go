package check

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// gatherLiar is a Tx of the model of starts that share a run, with one wrong method.
type gatherLiar struct {
	*gatherTx
	state     func(t *gatherTx, s protocol.Run[uint8]) protocol.Run[uint8]
	save      func(t *gatherTx, before, x *gatherer)
	gathering func(t *gatherTx) (uint8, bool)
	forgets   bool // Joined knows only the starts that have joined the run which collects now
	noJoin    bool // Join does nothing
	noReplace bool // ReplaceItem does nothing
}

func (l gatherLiar) bug() gatherBug {
	return gatherBug{tx: func(t *gatherTx) protocol.Tx[uint8, uint8] {
		l.gatherTx = t
		return &l
	}}
}

func (l *gatherLiar) State(r uint8) protocol.Run[uint8] {
	s := l.gatherTx.State(r)
	if l.state != nil {
		s = l.state(l.gatherTx, s)
	}
	return s
}

func (l *gatherLiar) Save(r uint8, s protocol.Run[uint8]) error {
	before := *l.run(r)
	_ = l.gatherTx.Save(r, s)
	if l.save != nil {
		l.save(l.gatherTx, &before, l.run(r))
	}
	return nil
}

func (l *gatherLiar) Gathering(key string) (uint8, error) {
	if l.gathering != nil {
		if r, lie := l.gathering(l.gatherTx); lie {
			return r, nil
		}
	}
	return l.gatherTx.Gathering(key)
}

func (l *gatherLiar) Joined(start event.RunID) (event.RunID, error) {
	id, err := l.gatherTx.Joined(start)
	if l.forgets && id != "" && !l.run(number(id)).gather {
		return "", nil
	}
	return id, err
}

func (l *gatherLiar) Join(start event.RunID, r uint8, at int64) error {
	if l.noJoin {
		return nil
	}
	return l.gatherTx.Join(start, r, at)
}

func (l *gatherLiar) ReplaceItem(r uint8, i store.Item) error {
	if l.noReplace {
		return nil
	}
	return l.gatherTx.ReplaceItem(r, i)
}

const (
	debouncing = iota // indexes of gatherConfigs
	batching
	batchingAny
)

var gatherSeeded = []struct {
	name  string
	in    int
	finds string
	bug   gatherBug
}{
	{"L12: a start looks only at who gathers now", batchingAny, "a start is in two runs", gatherLiar{forgets: true}.bug()},
	{"L12: a start is not remembered", batchingAny, "a run does not have each start once", gatherLiar{noJoin: true}.bug()},
	{"L12: a start looks who gathers, and joins in another action", batchingAny, "it is lost", func() gatherBug {
		b := gatherLiar{gathering: func(t *gatherTx) (uint8, bool) {
			saw := t.n.saw[t.starts]
			return saw - 1, saw > 1 && t.n.runs[saw-2].there
		}}.bug()
		b.look = true
		return b
	}()},
	{"L12: a claim does not end it", batchingAny, "it is lost", gatherLiar{save: func(_ *gatherTx, before, x *gatherer) {
		x.gather = x.gather || before.gather
	}}.bug()},
	{"L12: a run waits as long as starts come", debouncing, "a run waits longer than its maximum", gatherLiar{state: func(t *gatherTx, s protocol.Run[uint8]) protocol.Run[uint8] {
		s.Created = protocol.Millis(t.Now())
		return s
	}}.bug()},
	{"L12: a run is never full", batching, "more starts than fill a run", gatherLiar{state: func(_ *gatherTx, s protocol.Run[uint8]) protocol.Run[uint8] {
		if s.QueueState != store.StateOwned {
			s.Unread = 0
		}
		return s
	}}.bug()},
	{"L12: what is asked to end gathers on", batching, "a run that is asked to end gathers", gatherLiar{save: func(_ *gatherTx, before, x *gatherer) {
		x.gather = x.gather || before.gather && x.place == store.StateReady
	}}.bug()},
	{"L12: the first start counts", debouncing, "another start counts than the last one", gatherLiar{noReplace: true}.bug()},
}
