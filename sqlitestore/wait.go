package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// Wait blocks until there may be something to do. If Until is zero it does not
// end by time, and a due time ends it if it is earlier than all that were set
// when Wait was called.
//
// It is notified of changes by this process at once; it notices changes that another
// process makes to the same file within about 10 ms.
func (s *Store) Wait(ctx context.Context, o store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	for _, p := range o.Sessions {
		if err := s.enterPartition(ctx, p.Partition); err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", p.Session, err)
		}
	}
	call := notify.NewCall(&o)
	w := call.Join(s.notifier.waiters, 0)
	signal(s.notifier.joined)
	if err := s.look(ctx, w, &o); err != nil {
		return call.Leave(false, err)
	}
	return call.Wait(ctx, s.clock, s.ctx.Done())
}

// look finds what was in the store before the Wait began.
func (s *Store) look(ctx context.Context, w *notify.Waiter, o *store.Wait) error {
	sessions := make([]store.SessionID, 0, len(o.Sessions))
	for _, p := range o.Sessions {
		sessions = append(sessions, p.Session)
	}
	found, err := s.survey(ctx, sessions, nil, nil)
	if err != nil {
		return err
	}
	w.Found(found.due)
	s.notifier.offer(found)
	// One wake is enough, but which of them is still there, and does not go to somebody
	// who waits for longer, only the transaction knows: it stores again what is left.
	served := slices.DeleteFunc(found.wakes, func(c store.Route) bool { return !slices.Contains(o.Routes, c) })
	if len(served) == 0 {
		return nil
	}
	return s.write(ctx, func(t *tx) error { return t.passOn(served...) })
}

// passOn passes the wakes of routes that are still set to waiting calls.
func (t *tx) passOn(routes ...store.Route) error {
	for _, c := range routes {
		set, err := t.number(`SELECT id FROM classes WHERE queue = +? AND workflow = +? AND wake = 1`, c.Queue, c.Workflow)
		if err != nil {
			return err
		}
		if set != 0 {
			t.wake(set)
		}
	}
	return nil
}

// Watch blocks until the log of a run has more than n frames, or until the run has ended.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	changes := s.notifier.frames.Subscribe(run)
	defer changes.Close()
	signal(s.notifier.joined)
	return changes.Await(ctx, notify.Awaiting[event.RunID, uint64]{Look: func() (uint64, bool, error) {
		frames, ended, err := s.frames(ctx, run)
		if err == nil && frames == 0 {
			err = fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		}
		return frames, store.Watched(n, frames, ended), err
	}})
}

const selectFrames = `SELECT n, place FROM runs WHERE id = +? AND hidden = 0`

// frames returns the number of frames of a run, 0 if there is no such run, and whether the
// run has ended.
func (s *Store) frames(ctx context.Context, run event.RunID) (frames uint64, ended bool, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(selectFrames, func(r row) error {
			frames, ended = uint64(r.ColumnInt64(0)), store.QueueState(r.ColumnInt64(1)) == store.StateEnded
			return nil
		}, run)
	})
	return frames, ended, ofRun(run, 0, err)
}

// survey holds the state of the database that matters to waiting calls.
type survey struct {
	wakes  []store.Route
	unread []inboxChange
	due    int64 // the next due time, 0: none
	// blocks is how often runs of the routes were blocked; absent: never.
	blocks map[store.Route]int64
	frames map[event.RunID]uint64 // of the watched runs; 0: not there
	// streams are those that are awaited, as they stand.
	streams map[streamTopic]standing
	took    time.Duration
}

// survey looks for everything that could concern these sessions, runs and streams.
func (s *Store) survey(ctx context.Context, sessions []store.SessionID, runs []event.RunID, streams []streamTopic) (*survey, error) {
	var found *survey
	start := time.Now()
	err := s.readAside(ctx, func(c *conn) error {
		found = &survey{blocks: map[store.Route]int64{}}
		if err := found.read(c, sessions, runs); err != nil {
			return err
		}
		return found.readStreams(c, streams)
	})
	if err != nil {
		return nil, err
	}
	found.took = time.Since(start)
	return found, nil
}

func (f *survey) read(c *conn, sessions []store.SessionID, runs []event.RunID) error {
	err := c.query(`SELECT queue, workflow FROM classes WHERE wake = 1`, func(r row) error {
		f.wakes = append(f.wakes, store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)})
		return nil
	})
	if err != nil {
		return err
	}
	err = c.query(`SELECT queue, workflow, blocks FROM classes WHERE blocks > 0`, func(r row) error {
		f.blocks[store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}] = r.ColumnInt64(2)
		return nil
	})
	if err != nil {
		return err
	}
	for _, session := range sessions {
		err := c.query(`SELECT r.id, (SELECT max(i.seq) FROM inbox i WHERE i.run = r.key)
			FROM sessions s JOIN runs r ON r.owner = s.id AND r.inbox > 0 /*readable r.key*/ WHERE s.name = +?`, func(r row) error {
			f.unread = append(f.unread, inboxChange{inboxNew, session, unpackRun(r, 0), r.ColumnInt64(1)})
			return nil
		}, string(session))
		if err != nil {
			return err
		}
	}
	if len(runs) > 0 {
		f.frames = make(map[event.RunID]uint64, len(runs))
	}
	for _, run := range runs {
		n, err := c.number(selectFrames, run)
		if err != nil && !ofOneRun(err) {
			return err
		}
		f.frames[run] = uint64(n) // a damaged run is as good as gone: whoever watches it looks, and is told
	}
	f.due, err = c.nextDue()
	return err
}
