package api

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// message is a server-sent event.
type message struct {
	id   string // after which a reader that was cut off goes on; empty: that of the message before
	kind string
	data any
}

// maxWrite is how many bytes are sent at once, or a message that is larger.
const maxWrite = 256 << 10

// stream answers with server-sent events: those that feed delivers, then one of the kind end, or problem if feed has ended with
// an error. What comes within the delay of a pace is written at once, up to its batch. When nothing comes the reader is told from time
// to time that the connection is alive. feed ends with its context.
func (q *request) stream(pace route.Pace, feed func(ctx context.Context) iter.Seq2[message, error]) {
	q.w.Header().Set("Content-Type", "text/event-stream")
	q.w.Header().Set("X-Accel-Buffering", "no") // proxies pass each message on
	q.w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancel(q.ctx())
	messages := make(chan message)
	go func() {
		defer close(messages)
		last := message{kind: "end", data: struct{}{}}
		for m, err := range feed(ctx) {
			if err != nil {
				last = message{kind: "problem", data: admin.ProblemOf(err)}
				break
			}
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
		select {
		case messages <- last:
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		for range messages { // until feed has ended
		}
	}()
	q.write(ctx, pace, messages)
}

// write sends messages until there are no more, the reader has gone, its credential holds no more, or the server stops.
func (q *request) write(ctx context.Context, pace route.Pace, messages <-chan message) {
	alive := time.NewTicker(q.h.cfg.KeepAlive)
	defer alive.Stop()
	again := time.NewTicker(q.h.cfg.Recheck)
	defer again.Stop()
	var batch bytes.Buffer
	waiting, due := 0, time.NewTimer(0)
	defer due.Stop()
	send := func() error {
		text := batch.String()
		batch.Reset()
		waiting = 0
		return q.send(text)
	}
	for err := q.send(": what comes\n\n"); err == nil; {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if ended := httpauth.Still(q.h.who, q.r, principalOf(q.r.Context())); ended != nil {
				batch.Reset() // whoever goes on asks for it again
				(&message{kind: "problem", data: admin.ProblemOf(ended)}).writeTo(&batch)
				_ = send()
				return
			}
		case <-alive.C:
			if waiting == 0 {
				err = q.send(": alive\n\n")
			}
		case <-due.C:
			if waiting > 0 {
				err = send()
			}
		case m, more := <-messages:
			if !more {
				if waiting > 0 {
					_ = send() // a reader that has gone asks again
				}
				return
			}
			m.writeTo(&batch)
			if waiting++; waiting >= pace.Batch || batch.Len() >= maxWrite || pace.Delay == 0 {
				err = send()
			} else if waiting == 1 {
				due.Reset(pace.Delay)
			}
		}
	}
}

// writeTo writes a message as the HTML standard has it. Its data has no line break.
func (m *message) writeTo(b *bytes.Buffer) {
	if m.id != "" {
		fmt.Fprintf(b, "id: %s\n", m.id)
	}
	fmt.Fprintf(b, "event: %s\ndata: %s\n", m.kind, encode(m.data))
}
