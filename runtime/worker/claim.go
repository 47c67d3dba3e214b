package worker

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

const (
	// claimBatch bounds one claim call.
	claimBatch = 128
	// dueBatch bounds how many due runs one call makes ready.
	dueBatch = 1024
	// waitMost bounds how long the claim loop sleeps: the only cover for a
	// worker that dies with a wake in its hand.
	waitMost = 5 * time.Second
)

// claimLoop claims runs until ctx ends. It returns an error only if the store
// was closed under it. A partition that does not answer keeps it from no other one.
func (w *Worker) claimLoop(ctx context.Context) error {
	claim := make(map[int]bool)
	for _, s := range w.sessions {
		claim[s.partition] = true
	}
	defer w.handOn(claim)
	next := make([]time.Time, len(w.sessions)) // due times, by partition
	for ctx.Err() == nil {
		now := w.clock.Now()
		for i, s := range w.inTurn() {
			wanted := claim[s.partition] || !next[i].IsZero() && !next[i].After(now)
			a, answered := w.claimSoon(ctx, s, wanted)
			switch {
			case !answered:
				continue
			case errors.Is(a.err, store.ErrClosed):
				return a.err
			case a.err != nil:
				return nil // ctx has ended
			}
			if next[i] = a.next; !a.full {
				delete(claim, s.partition)
			}
		}
		w.tellDamage()
		if len(claim) == 0 {
			w.quiet()
		}
		woken, err := w.await(ctx, next, w.wanting(claim))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrClosed):
			return err
		default:
			wait.For(ctx, w.clock, time.Second)
		}
		for _, p := range woken.Claim {
			claim[p] = true
		}
		for _, run := range woken.Mail {
			w.notifyMail(run)
		}
		if woken.Due || err != nil {
			for _, s := range w.sessions {
				claim[s.partition] = true
			}
		}
	}
	return nil
}

// wanting reports whether a partition that answers is to be claimed from.
func (w *Worker) wanting(claim map[int]bool) bool {
	for _, s := range w.sessions {
		if claim[s.partition] && !s.silent.Load() {
			return true
		}
	}
	return false
}

// claimPatience is how long the claim loop waits for one of several partitions. One that
// takes longer, because its server is lost or slow, is asked aside from then on until it
// answers, while the loop serves the others.
const claimPatience = time.Second

// claimAnswer is what came of claiming from a partition.
type claimAnswer struct {
	next time.Time
	full bool
	err  error // ctx has ended, or the store was closed
}

// claimSoon claims from a partition if that is wanted. It reports false if there is no
// answer, yet or at all.
func (w *Worker) claimSoon(ctx context.Context, s *session, wanted bool) (claimAnswer, bool) {
	if s.asking != nil {
		select {
		case a := <-s.asking:
			s.asking = nil
			s.silent.Store(false)
			return a, true
		default:
			return claimAnswer{}, false
		}
	}
	switch {
	case !wanted:
		return claimAnswer{}, false
	case len(w.sessions) == 1:
		return w.claimUntil(ctx, s), true
	}
	answer := make(chan claimAnswer, 1)
	w.work.Go(func() {
		answer <- w.claimUntil(ctx, s)
		if s.silent.Load() {
			w.revive()
		}
	})
	patience := time.NewTimer(claimPatience)
	defer patience.Stop()
	select {
	case a := <-answer:
		return a, true
	case <-patience.C:
	}
	s.asking = answer
	s.silent.Store(true)
	if len(answer) > 0 {
		w.revive() // it may have looked at silent before that was set
	}
	return claimAnswer{}, false
}

// revive tells the claim loop that a partition that was silent answers.
func (w *Worker) revive() {
	select {
	case w.revived <- struct{}{}:
	default:
	}
}

// claimUntil claims from a partition until it is answered, until ctx ends, or until the
// store is closed.
func (w *Worker) claimUntil(ctx context.Context, s *session) (a claimAnswer) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		a.next, a.full, a.err = w.claimFrom(ctx, s)
		if a.err == nil || ctx.Err() != nil || errors.Is(a.err, store.ErrClosed) {
			return a
		}
		wait.For(ctx, w.clock, delay)
	}
}

// handOn gives back the wakes that were taken and not followed by a claim: a
// claim of nothing announces again what is ready.
func (w *Worker) handOn(claim map[int]bool) {
	ctx, cancel := context.WithTimeout(context.Background(), hardStop)
	defer cancel()
	for _, s := range w.sessions {
		if claim[s.partition] && !s.silent.Load() {
			// If it fails, others look again after waitMost.
			_, _ = w.store.Claim(ctx, store.Claim{Partition: s.partition, Session: s.current(), Token: event.NewToken(), Classes: w.classes})
		}
	}
}

// await waits until there may be something to claim. If the worker was full before
// it had claimed what it was woken for, it takes no other wake, and waits for room.
func (w *Worker) await(ctx context.Context, next []time.Time, full bool) (store.Woken, error) {
	until := w.clock.Now().Add(w.waitMost)
	for i, t := range next {
		if !t.IsZero() && t.Before(until) && !w.sessions[i].silent.Load() {
			until = t
		}
	}
	req := store.Wait{Until: until}
	for _, s := range w.sessions {
		if s.silent.Load() {
			continue // it would hold up the others
		}
		req.Sessions = append(req.Sessions, store.WaitSession{Partition: s.partition, Session: s.current()})
	}
	if !full && w.capacity() > 0 {
		req.Classes = w.classes
	}
	// Capacity that is freed meanwhile ends the wait, and so does a partition that answers
	// again.
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kick := w.kick
	if len(req.Classes) > 0 {
		kick = nil
	}
	if kick != nil || len(req.Sessions) < len(w.sessions) {
		go func() {
			select {
			case <-kick:
				cancel()
			case <-w.revived:
				cancel()
			case <-wctx.Done():
			}
		}()
	}
	woken, err := w.store.Wait(wctx, req)
	if err != nil && ctx.Err() == nil && wctx.Err() != nil {
		return store.Woken{Due: true}, nil
	}
	return woken, err
}

// claimFrom claims until nothing is left, and returns the next due time of the
// partition. If the worker is full before that, the wake that led here has to be
// followed by a claim once it is not.
func (w *Worker) claimFrom(ctx context.Context, s *session) (next time.Time, full bool, err error) {
	for renewed, filled := false, false; ; {
		room := min(w.capacity(), claimBatch)
		if w.passes(s, room, filled) {
			w.setBehind(s, true)
			next, err = w.store.Due(ctx, s.partition, dueBatch)
			return next, true, err
		}
		id := s.current()
		if id == "" {
			if err := s.renew(ctx, id); err != nil {
				return next, false, err
			}
			continue
		}
		s.mu.Lock()
		s.claiming++
		s.mu.Unlock()
		answer, err := w.store.Claim(ctx, store.Claim{
			Partition: s.partition, Session: id, Token: event.NewToken(), Classes: w.classes, Max: room, Exempt: w.exemptAfter(),
		})
		for _, c := range answer.Runs {
			w.adopt(s, id, c)
		}
		s.mu.Lock()
		s.claiming--
		s.mu.Unlock()
		switch {
		case errors.Is(err, store.ErrExpired) && !renewed:
			// The wake that led here is taken: the new session claims.
			if err := s.renew(ctx, id); err != nil {
				return next, false, err
			}
			renewed = true
		case errors.Is(err, store.ErrExpired):
			return next, false, nil // not for ever
		case err != nil:
			return next, false, err
		case len(answer.Runs) == room:
			filled = true
		default:
			w.setBehind(s, false)
			return answer.Next, false, nil
		}
	}
}

// setBehind notes whether runs may wait in a partition for a place on this worker: then
// what is started here waits behind them.
func (w *Worker) setBehind(s *session, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.behind = behind
}

func (w *Worker) capacity() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turns.now.Load() != nil {
		return 0
	}
	return w.cfg.Runs - w.occupied()
}

// adopt makes a claimed run a task of this worker.
func (w *Worker) adopt(s *session, id store.SessionID, c store.ClaimedRun) {
	w.mu.Lock()
	if !s.holds(id) || w.stopping.Load() {
		w.mu.Unlock()
		return // the session is over, or will be soon: the run is recovered with all that it owned
	}
	t := w.tasks[c.Run]
	if t == nil {
		if t = w.parked.take(c.Run); t == nil {
			t = &task{w: w, id: c.Run}
		}
		w.tasks[c.Run] = t
	}
	// A task that is there already waits for the answer of its last commit,
	// which has given the run back: it takes the new claim after that. It is told
	// under the lock, so that it cannot leave in between.
	claim := &claimed{c, s.partition, id, w.claimSeq.Add(1)}
	if c.N == 1 {
		t.unbegun.Store(claim)
	}
	t.post(input{kind: inputClaimed, claimed: claim})
	w.mu.Unlock()
}

// notifyMail says that a run of this worker has unread items.
func (w *Worker) notifyMail(run event.RunID) {
	w.mu.Lock()
	t := w.tasks[run]
	w.mu.Unlock()
	if t != nil {
		t.post(input{kind: inputMail})
	}
}

func (w *Worker) owns(run event.RunID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[run] != nil
}

// partitionOf returns the partition that a run belongs to.
func (w *Worker) partitionOf(run event.RunID) int { return int(run.Slot()) % w.store.Partitions() }

func (w *Worker) eachOwned(partition int, f func(*task)) {
	w.mu.Lock()
	var all []*task
	for _, t := range w.tasks {
		if w.partitionOf(t.id) == partition {
			all = append(all, t)
		}
	}
	w.mu.Unlock()
	for _, t := range all {
		f(t)
	}
}

func (w *Worker) ownedOn(partition int) int {
	n := 0
	w.eachOwned(partition, func(*task) { n++ })
	return n
}

// dropPartition forgets all runs of a session that is over.
func (w *Worker) dropPartition(partition int) {
	w.eachOwned(partition, func(t *task) { t.post(input{kind: inputLost}) })
}
