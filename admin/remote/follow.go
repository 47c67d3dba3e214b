package remote

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Follow calls [admin.Service.Follow] on the server. The first connection must succeed. After that,
// Follow reconnects if the connection fails.
func (s *Service) Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		r, err := s.Run(ctx, ref) // the workflow ID may refer to another run when Follow reconnects
		if err != nil {
			yield(admin.Event{}, err)
			return
		}
		n := &numbered[admin.Event]{
			what: "follow run " + ref, lag: admin.LagError{Run: r.ID}, next: max(f.From, 1), number: func(e *admin.Event) uint64 { return e.Seq }, yield: yield,
		}
		s.follow(ctx, n.what, call{route: route.Follow, path: []string{r.ID}, query: route.EventQuery(f)}, n)
	}
}

// FollowStream calls [admin.Service.FollowStream] on the server. The first connection must succeed.
// After that, FollowStream reconnects if the connection fails.
func (s *Service) FollowStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[admin.Chunk, error] {
	return func(yield func(admin.Chunk, error) bool) {
		page, err := s.Stream(ctx, ref, name, from, 1)
		if err != nil {
			yield(admin.Chunk{}, err)
			return
		}
		n := &numbered[admin.Chunk]{
			what: "follow stream " + name, lag: admin.LagError{Run: page.Run, Stream: name}, next: from, number: func(c *admin.Chunk) uint64 { return c.Index }, yield: yield,
		}
		s.follow(ctx, n.what, call{route: route.FollowStream, path: []string{page.Run, name}, query: route.PageQuery(from, 0)}, n)
	}
}

// Live returns an iterator over the updates of several topics over one connection. [RunTopic] and
// [ListTopic] return topics. There may be at most 50. The iterator ends when there are no further
// updates. The first connection must succeed. After that, Live reconnects if the connection fails.
// It returns each event exactly once, and a list initially and after each change.
func (s *Service) Live(ctx context.Context, topics ...string) iter.Seq2[admin.News, error] {
	return func(yield func(admin.News, error) bool) {
		query := url.Values{"topics": {strings.Join(topics, ",")}}
		s.follow(ctx, "live", call{route: route.Live, query: query}, news(yield))
	}
}

// RunTopic returns the topic of a run. ref is the ID of the run, or id:WORKFLOWID.
func RunTopic(ref string) string { return "run:" + url.QueryEscape(ref) }

// ListTopic returns the topic of the list of runs that a filter selects.
func ListTopic(f admin.Filter) string { return "list:" + route.FilterQuery(f).Encode() }

// news is the reader of a live connection.
type news func(admin.News, error) bool

func (n news) fail(err error) { n(admin.News{}, err) }

func (n news) got(kind, data string) (done bool, err error) {
	if kind == "problem" {
		return false, problemIn("live", data)
	}
	var one admin.News
	if err := decode("live", data, &one); err != nil {
		return false, err
	}
	return !n(one, nil), nil
}

// Streams calls [admin.Service.Streams] on the server.
func (s *Service) Streams(ctx context.Context, ref string, f admin.StreamFilter) (admin.StreamList, error) {
	return get[admin.StreamList](ctx, s, call{route: route.Streams, path: []string{ref}, query: route.StreamQuery(f)})
}

// Stream calls [admin.Service.Stream] on the server.
func (s *Service) Stream(ctx context.Context, ref, name string, from uint64, limit int) (admin.ChunkPage, error) {
	return get[admin.ChunkPage](ctx, s, call{route: route.Stream, path: []string{ref, name}, query: route.PageQuery(from, limit)})
}

// Limits of the delay between two connections.
const (
	firstDelay = 50 * time.Millisecond
	lastDelay  = 5 * time.Second
)

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passing reports whether an error may be temporary.
func passing(err error) bool {
	if _, ok := errors.AsType[*admin.LagError](err); ok {
		return false
	}
	p, ok := errors.AsType[*admin.Problem](err)
	return !ok || p.Code == admin.CodeFailed || p.Code == admin.CodeInterrupted || p.Code == admin.CodeTimeout || p.Code == admin.CodeBusy
}

// reader processes the messages of a stream.
type reader interface {
	// got processes a message. done reports whether the consumer has stopped.
	got(kind, data string) (done bool, err error)
	// fail processes the error with which the stream ends.
	fail(err error)
}

// follow reads a stream over as many connections as necessary. Each connection continues after the
// last message received. Errors contain what, which describes the stream.
func (s *Service) follow(ctx context.Context, what string, c call, to reader) {
	for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
		at := c.last
		end, err := s.connect(ctx, &c, to)
		switch {
		case end:
			return
		case ctx.Err() != nil:
			to.fail(fmt.Errorf("%s: %w", what, ctx.Err()))
			return
		case err != nil && !passing(err):
			to.fail(err)
			return
		case c.last != at: // messages have arrived; the delay applies only to servers that do not respond
			delay = firstDelay / 2
			continue
		}
		if pause(ctx, delay) != nil {
			to.fail(fmt.Errorf("%s: %w", what, ctx.Err()))
			return
		}
	}
}

// connect reads the stream until the connection ends. end reports whether the stream is complete or
// the consumer has stopped.
func (s *Service) connect(ctx context.Context, c *call, to reader) (end bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.cfg.Silence, cancel)
	defer silence.Stop()
	answer, err := s.send(ctx, *c)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var id, kind, data string
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // the partial message is dropped; the server sends it again after a reconnect
			return false, cut(err)
		}
		silence.Reset(s.cfg.Silence)
		line = strings.TrimRight(line, "\r\n")
		if line != "" {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				id = value
			case "event":
				kind = value
			case "data":
				data = value
			}
			continue
		}
		switch kind {
		case "": // the message is a comment
		case "end":
			return true, nil
		default:
			if end, err = to.got(kind, data); end || err != nil {
				return end, err
			}
		}
		c.last = cmp.Or(id, c.last)
		id, kind, data = "", "", ""
	}
}

// cut returns the error for a connection that ended before the end of the stream.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// numbered is a reader of numbered entries.
type numbered[T any] struct {
	what   string
	lag    admin.LagError // identifies the run and the stream in errors
	next   uint64         // smallest number of an entry that has not been received
	number func(*T) uint64
	yield  func(T, error) bool
}

func (n *numbered[T]) fail(err error) {
	var none T
	n.yield(none, err)
}

func (n *numbered[T]) got(kind, data string) (done bool, err error) {
	switch kind {
	case "problem":
		return false, problemIn(n.what, data)
	case "lag":
		lag := n.lag
		if err := decode(n.what, data, &lag.Lag); err != nil {
			return false, err
		}
		return false, &lag
	case "event":
		var one T
		if err := decode(n.what, data, &one); err != nil {
			return false, err
		}
		if n.number(&one) < n.next { // the entry was received before
			return false, nil
		}
		n.next = n.number(&one) + 1
		return !n.yield(one, nil), nil
	}
	return false, nil // a message of a kind that only a newer server sends
}

// problemIn returns the problem with which a server ended a stream.
func problemIn(what, data string) error {
	var p admin.Problem
	if err := decode(what, data, &p); err != nil {
		return err
	}
	return &p
}

func decode(what, data string, into any) error {
	if err := json.Unmarshal([]byte(data), into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
