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
	id   string // position from which a reader that reconnects continues; empty means the position of the preceding message
	kind string
	data any
}

// maxWrite is the maximum size of a write in bytes. A single message may be larger.
const maxWrite = 256 << 10

// stream responds with server-sent events. It sends the messages of feed, then a message of kind
// end, or of kind problem if feed ends with an error. Messages that arrive within the delay of pace
// are written together, up to the batch size of pace. If no messages arrive, comments keep the
// connection alive. The context of feed is canceled when the response ends.
func (q *request) stream(pace route.Pace, feed func(ctx context.Context) iter.Seq2[message, error]) {
	q.w.Header().Set("Content-Type", "text/event-stream")
	q.w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering the messages
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
		for range messages { // waits until feed has ended
		}
	}()
	q.write(ctx, pace, messages)
}

// write sends messages until there are no more messages, the reader has disconnected, the
// credential has become invalid, or the server stops.
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
				batch.Reset() // drops the batch, because a reader that reconnects requests the messages again
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
					_ = send() // errors are ignored, because a reader that reconnects requests these events again
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

// writeTo writes a message in the event stream format of the HTML standard. The data of a message
// contain no line breaks.
func (m *message) writeTo(b *bytes.Buffer) {
	if m.id != "" {
		fmt.Fprintf(b, "id: %s\n", m.id)
	}
	fmt.Fprintf(b, "event: %s\ndata: %s\n", m.kind, encode(m.data))
}
