package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// follow sends the events of a run as server-sent events. Each has its number for an id, so that a reader
// who was cut off, and says the last one that it has got, misses nothing and gets nothing twice.
func follow(q *request) error {
	from, last := max(q.query.Seq("from"), 1), uint64(0)
	if q.query.Err != nil {
		return q.query.Err
	}
	if text := q.r.Header.Get("Last-Event-ID"); text != "" {
		var err error
		if last, err = strconv.ParseUint(text, 10, 63); err != nil {
			return &admin.InputError{What: fmt.Sprintf("the header Last-Event-ID is %.80q", text), Fix: "give the id of the last event of this run"}
		}
		from = last + 1 // a reader that reconnects has the from of its URL still
	}
	ref := q.path("id")
	known, err := q.service.Events(q.ctx(), ref, max(last, 1), 1)
	if err != nil { // what is known at once has a status of its own
		return err
	}
	if last > 0 && len(known.Events) == 0 {
		return &admin.InputError{What: fmt.Sprintf("the log has no event %d to go on after", last), Fix: "follow from an event that is in the log, or from the first one"}
	}
	q.w.Header().Set("Content-Type", "text/event-stream")
	q.w.Header().Set("X-Accel-Buffering", "no") // proxies pass each event on
	q.w.WriteHeader(http.StatusOK)

	ctx, cancel := context.WithCancel(q.ctx())
	events := make(chan followed)
	go func() {
		defer close(events)
		for e, err := range q.service.Follow(ctx, ref, from) {
			select {
			case events <- followed{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range events { // until it has ended
		}
	}()
	alive := time.NewTicker(q.h.cfg.KeepAlive)
	defer alive.Stop()
	for err = q.send(": the events of a run\n\n"); err == nil; {
		select {
		case <-ctx.Done(): // the reader has gone, or the server stops
			return nil
		case <-alive.C:
			err = q.send(": alive\n\n")
		case f, more := <-events:
			switch {
			case !more:
				_ = q.send("event: end\ndata: {}\n\n") // a reader that has gone asks again
				return nil
			case f.err != nil:
				_ = q.send(fmt.Sprintf("event: problem\ndata: %s\n", encode(admin.ProblemOf(f.err))))
				return nil
			}
			err = q.send(fmt.Sprintf("id: %d\nevent: event\ndata: %s\n", f.Seq, encode(&f.Event)))
		}
	}
	return nil
}

// followed is an event, or why there are no more.
type followed struct {
	admin.Event
	err error
}

// send writes to a reader as long as it reads.
func (q *request) send(text string) error {
	to := http.NewResponseController(q.w)
	_ = to.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of a test has none
	if _, err := io.WriteString(q.w, text); err != nil {
		return err
	}
	return to.Flush()
}
