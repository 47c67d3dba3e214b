package check

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// collectLiar is a Tx of the model of starts that share a run, with one wrong method.
type collectLiar struct {
	*collectTx
	state      func(t *collectTx, s protocol.Run[uint8]) protocol.Run[uint8]
	save       func(t *collectTx, before, x *collector)
	collecting func(t *collectTx) (uint8, bool)
	forgets    bool // Joined ignores starts that have joined a run which is not collecting
	noJoin     bool // Join does nothing
	noReplace  bool // ReplaceItem does nothing
}

func (l collectLiar) bug() collectBug {
	return collectBug{tx: func(t *collectTx) protocol.Tx[uint8, uint8] {
		l.collectTx = t
		return &l
	}}
}

func (l *collectLiar) State(r uint8) protocol.Run[uint8] {
	s := l.collectTx.State(r)
	if l.state != nil {
		s = l.state(l.collectTx, s)
	}
	return s
}

func (l *collectLiar) Save(r uint8, s protocol.Run[uint8]) error {
	before := *l.run(r)
	_ = l.collectTx.Save(r, s)
	if l.save != nil {
		l.save(l.collectTx, &before, l.run(r))
	}
	return nil
}

func (l *collectLiar) Collecting(key string) (uint8, error) {
	if l.collecting != nil {
		if r, lie := l.collecting(l.collectTx); lie {
			return r, nil
		}
	}
	return l.collectTx.Collecting(key)
}

func (l *collectLiar) Joined(start event.RunID) (event.RunID, error) {
	id, err := l.collectTx.Joined(start)
	if l.forgets && id != "" && !l.run(number(id)).collect {
		return "", nil
	}
	return id, err
}

func (l *collectLiar) Join(start event.RunID, r uint8, at int64) error {
	if l.noJoin {
		return nil
	}
	return l.collectTx.Join(start, r, at)
}

func (l *collectLiar) ReplaceItem(r uint8, i store.Item) error {
	if l.noReplace {
		return nil
	}
	return l.collectTx.ReplaceItem(r, i)
}

const (
	debouncing = iota // indexes in collectConfigs
	batching
	batchingAny
)

var collectSeeded = []struct {
	name  string
	in    int
	finds string
	bug   collectBug
}{
	{"L12: a start looks only at who gathers now", batchingAny, "a start is in two runs", collectLiar{forgets: true}.bug()},
	{"L12: a start is not remembered", batchingAny, "a run does not have each start once", collectLiar{noJoin: true}.bug()},
	{"L12: a start looks who gathers, and joins in another action", batchingAny, "it is lost", func() collectBug {
		b := collectLiar{collecting: func(t *collectTx) (uint8, bool) {
			saw := t.n.saw[t.starts]
			return saw - 1, saw > 1 && t.n.runs[saw-2].there
		}}.bug()
		b.look = true
		return b
	}()},
	{"L12: a claim does not end it", batchingAny, "it is lost", collectLiar{save: func(_ *collectTx, before, x *collector) {
		x.collect = x.collect || before.collect
	}}.bug()},
	{"L12: a run waits as long as starts come", debouncing, "a run waits longer than its maximum", collectLiar{state: func(t *collectTx, s protocol.Run[uint8]) protocol.Run[uint8] {
		s.Created = protocol.Millis(t.Now())
		return s
	}}.bug()},
	{"L12: a run is never full", batching, "more starts than fill a run", collectLiar{state: func(_ *collectTx, s protocol.Run[uint8]) protocol.Run[uint8] {
		if s.QueueState != store.StateOwned {
			s.Unread = 0
		}
		return s
	}}.bug()},
	{"L12: what is asked to end gathers on", batching, "a run that is asked to end gathers", collectLiar{save: func(_ *collectTx, before, x *collector) {
		x.collect = x.collect || before.collect && x.place == store.StateReady
	}}.bug()},
	{"L12: the first start counts", debouncing, "another start counts than the last one", collectLiar{noReplace: true}.bug()},
}
