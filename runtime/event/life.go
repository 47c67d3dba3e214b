package event

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Lives derives the entities of a log, as [LogState] does, and keeps those that have ended. It
// ignores entities created by events before First. The zero value derives all entities. Apply the
// events in order, starting with First.
type Lives struct {
	First uint64
	// Kinds are the kinds of entities to derive, see [KindOf]; empty: all kinds.
	Kinds []Entity
	// Open removes entities that have ended.
	Open bool
	// Limit is the maximum number of derived entities; 0: no maximum. If Open is set, it only
	// limits the number of entities that All returns.
	Limit int

	seq  uint64 // sequence number of the last event
	more uint64 // number of the first entity that is omitted because of the limit; 0: none
	by   map[uint64]*Open
}

// Apply applies the next event. It fails, and changes nothing, if the event is out of order or if
// the table of transitions forbids it.
func (l *Lives) Apply(e *Event) error {
	if want := max(l.seq+1, l.First, 1); e.Seq != want {
		return fmt.Errorf("follow entities: event %d (%s) comes where %d should: %w", e.Seq, e.Type, want, ErrCorrupt)
	}
	kind := e.Type.Entity()
	if kind == EntityNone || kind == EntityRun || e.Type.Creates() && len(l.Kinds) > 0 && !slices.Contains(l.Kinds, KindOf(kind, e.Name)) {
		l.seq = e.Seq
		return nil
	}
	if !e.Type.Creates() {
		if err := l.change(e); err != nil {
			return err
		}
		l.seq = e.Seq
		return nil
	}
	state, err := Next(StateNone, e.Type)
	if err != nil {
		return err
	}
	l.seq = e.Seq
	if l.Limit > 0 && !l.Open && len(l.by) == l.Limit {
		if l.more == 0 {
			l.more = e.Seq
		}
		return nil
	}
	if l.by == nil {
		l.by = map[uint64]*Open{}
	}
	l.by[e.Seq] = newOpen(e, state)
	return nil
}

// change applies an event about an existing entity.
func (l *Lives) change(e *Event) error {
	of := l.by[e.Ref]
	if of == nil {
		return nil // the entity is ignored
	}
	state, err := Next(of.State, e.Type)
	if err != nil {
		if te, ok := err.(*TransitionError); ok { //nolint:errorlint // Next returns it unwrapped
			te.Seq, te.Ref = e.Seq, e.Ref
		}
		return err
	}
	of.follow(e, state)
	if l.Open && state.Terminal() {
		delete(l.by, e.Ref)
	}
	return nil
}

// All returns the entities in order of creation. more is the Ref of the first entity that was
// omitted because of the limit, which begins the next page. It is 0 if no entity was omitted.
func (l *Lives) All() (all []*Open, more uint64) {
	for _, of := range l.by {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b *Open) int { return int(int64(a.Ref) - int64(b.Ref)) })
	if l.Limit > 0 && len(all) > l.Limit {
		return all[:l.Limit], all[l.Limit].Ref
	}
	return all, l.more
}

// StreamID returns the ID of a stream of a chain of runs. chain is the first run of the chain, and
// the ID contains its time, because no store keeps the time of the first write to a stream.
func StreamID(chain RunID, name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return derivedID(PrefixStream, chain, h.Sum64(), chain.Time())
}

// ParseEntity returns the entity whose [Entity.String] is name. It accepts only the kinds that
// [Entities] returns.
func ParseEntity(name string) (Entity, error) {
	all := Entities()
	for _, e := range all {
		if e.String() == name {
			return e, nil
		}
	}
	var names []string
	for _, e := range all {
		names = append(names, e.String())
	}
	return EntityNone, fmt.Errorf("parse entity %q: want one of %s", name, strings.Join(names, ", "))
}

// Entities returns the kinds of entities that can occur more than once in a log.
func Entities() []Entity {
	return []Entity{EntityStep, EntityWait, EntityHook, EntityChild, EntitySend, EntityAsk}
}

// Loop detects a cycle in a walk from run to run, for example along a chain. It stores a single
// run, however long the walk is (Brent's algorithm), so it may detect a cycle only after several
// rounds. Logs written by this runtime contain no cycles. An imported file may contain one.
type Loop struct {
	kept       RunID
	step, keep int
}

// Closed reports whether the walk is in a cycle. Call it for each run of the walk, in order.
func (l *Loop) Closed(run RunID) bool {
	if l.step > 0 && run == l.kept {
		return true
	}
	if l.step == l.keep {
		l.kept, l.keep, l.step = run, 2*l.keep+1, 0
	}
	l.step++
	return false
}
