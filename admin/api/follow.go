package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// follow sends the events of a run.
func follow(q *request) error {
	f, pace := route.ReadEventFilter(q.query), route.ReadPace(q.query)
	if q.query.Err != nil {
		return q.query.Err
	}
	last, err := q.last()
	if err != nil {
		return err
	}
	r, err := q.service.Run(q.ctx(), q.path("id"))
	if err != nil { // an error before the response begins determines the status of the response
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	q.stream(pace, func(ctx context.Context) iter.Seq2[message, error] {
		return numbered(max(f.From, 1), last, r.Events, func(from uint64) iter.Seq2[admin.Event, error] {
			f.From = from
			return q.service.Follow(ctx, r.ID, f)
		}, func(e *admin.Event) uint64 { return e.Seq })
	})
	return nil
}

// followStream sends the chunks of a stream of a run.
func followStream(q *request) error {
	from, pace := q.query.Seq("from"), route.ReadPace(q.query)
	if q.query.Err != nil {
		return q.query.Err
	}
	last, err := q.last()
	if err != nil {
		return err
	}
	page, err := q.service.Stream(q.ctx(), q.path("id"), q.path("name"), last.n, 1)
	if err != nil {
		return err
	}
	q.stream(pace, func(ctx context.Context) iter.Seq2[message, error] {
		return numbered(from, last, page.Last, func(from uint64) iter.Seq2[admin.Chunk, error] {
			return q.service.FollowStream(ctx, page.Run, page.Name, from)
		}, func(c *admin.Chunk) uint64 { return c.Index })
	})
	return nil
}

// position is the number of the last entry that a reader has received.
type position struct {
	n     uint64
	known bool
}

// last parses the header Last-Event-ID, which a reader sends when it reconnects. The header takes
// precedence over the parameter from in the URL.
func (q *request) last() (position, error) {
	text := q.r.Header.Get("Last-Event-ID")
	if text == "" {
		return position{}, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return position{}, &admin.InputError{What: fmt.Sprintf("the header Last-Event-ID is %.80q", text), Fix: "give the id of the last message of this stream"}
	}
	return position{n, true}, nil
}

// numbered converts the entries that follow returns to messages whose IDs are the numbers of the
// entries. A reader that reconnects with the last ID receives each entry exactly once. end is the
// number of the newest entry. If the next entry is not retained, or if last is after end, numbered
// sends a message of kind lag with the number at which it continues.
func numbered[T any](from uint64, last position, end uint64, follow func(from uint64) iter.Seq2[T, error], number func(*T) uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		if last.known {
			from = last.n + 1
		}
		if last.n > end {
			lag := admin.Lag{Wanted: from, Next: end + 1}
			if from = lag.Next; !yield(lagMessage(lag), nil) {
				return
			}
		}
		for again := true; again; {
			again = false
			for one, err := range follow(from) {
				if lag, ok := errors.AsType[*admin.LagError](err); ok {
					from, again = lag.Next, true
					if !yield(lagMessage(lag.Lag), nil) {
						return
					}
					break
				}
				if err != nil {
					yield(message{}, err)
					return
				}
				n := number(&one)
				if from = n + 1; !yield(message{id: strconv.FormatUint(n, 10), kind: "event", data: &one}, nil) {
					return
				}
			}
		}
	}
}

// lagMessage returns a message that reports the number at which the reader continues. Its ID is the
// preceding number, so that a reader that reconnects continues there.
func lagMessage(lag admin.Lag) message {
	return message{id: strconv.FormatUint(lag.Next-1, 10), kind: "lag", data: lag}
}

// send writes a text with a time limit.
func (q *request) send(text string) error {
	to := http.NewResponseController(q.w)
	_ = to.SetWriteDeadline(time.Now().Add(writeTime)) // response recorders in tests do not support deadlines
	if _, err := io.WriteString(q.w, text); err != nil {
		return err
	}
	return to.Flush()
}
