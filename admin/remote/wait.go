package remote

import (
	"bufio"
	"context"
	"crypto/rand"
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

// patience is how long one request waits for something; then the next one does.
const patience = 30 * time.Second

// Wait is part of admin.Service.
func (s *Service) Wait(ctx context.Context, ref string, most time.Duration) (admin.Run, error) {
	for until := time.Now().Add(most); ; {
		wait := min(time.Until(until), patience)
		q := url.Values{}
		if wait > 0 {
			q.Set("wait", wait.String())
		}
		r, err := get[admin.Run](ctx, s, call{route: route.Result, path: []string{ref}, query: q})
		if err != nil || !r.EndedAt.IsZero() || wait <= 0 {
			return r, err
		}
		ref = r.ID // the workflow id could be another run's by now
	}
}

// Ask is part of admin.Service. A question without a key gets one, so that it can wait for long.
func (s *Service) Ask(ctx context.Context, ref, name string, m admin.Message) (admin.Answer, error) {
	if m.Key == "" {
		m.Key = "ask-" + rand.Text()
	}
	for {
		got, err := get[admin.Answer](ctx, s, call{route: route.Ask, path: []string{ref, name}, body: m, key: m.Key, prefer: patience})
		if p, ok := errors.AsType[*admin.Problem](err); !ok || p.Code != admin.CodeTimeout || ctx.Err() != nil {
			return got, err
		}
	}
}

// Follow is part of admin.Service. The first connection must work; from then on an outage is waited for.
func (s *Service) Follow(ctx context.Context, ref string, from uint64) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		r, err := s.Run(ctx, ref)
		if err != nil {
			yield(admin.Event{}, err)
			return
		}
		f := &follower{s: s, run: r.ID, next: max(from, 1), yield: yield}
		for delay := firstDelay; ; delay = min(2*delay, lastDelay) {
			at := f.next
			end, err := f.read(ctx)
			switch {
			case end:
				return
			case ctx.Err() != nil:
				yield(admin.Event{}, fmt.Errorf("follow run %s: %w", ref, ctx.Err()))
				return
			case err != nil && !passing(err):
				yield(admin.Event{}, err)
				return
			case f.next > at: // it works: the delay is for servers that do not
				delay = firstDelay / 2
				continue
			}
			if pause(ctx, delay) != nil {
				yield(admin.Event{}, fmt.Errorf("follow run %s: %w", ref, ctx.Err()))
				return
			}
		}
	}
}

// The times between two connections.
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

// passing reports whether an error may be gone when the run is followed again.
func passing(err error) bool {
	p, ok := errors.AsType[*admin.Problem](err)
	return !ok || p.Code == admin.CodeFailed || p.Code == admin.CodeInterrupted || p.Code == admin.CodeTimeout || p.Code == admin.CodeBusy
}

// follower follows one run by several connections.
type follower struct {
	s     *Service
	run   string
	next  uint64
	last  uint64 // that was got; 0: none
	yield func(admin.Event, error) bool
}

// read follows until the connection ends. end: there is no more to come, or the reader has had enough.
func (f *follower) read(ctx context.Context) (end bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(f.s.cfg.Silence, cancel)
	defer silence.Stop()
	answer, err := f.s.send(ctx, call{route: route.Follow, path: []string{f.run}, query: url.Values{"from": {fmt.Sprint(f.next)}}, last: f.last})
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var kind, data string
	for lines := bufio.NewReader(answer.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // what has come of an event is dropped: it comes again
			return false, fmt.Errorf("follow run %s: %w", f.run, cut(err))
		}
		silence.Reset(f.s.cfg.Silence)
		line = strings.TrimRight(line, "\r\n")
		if line != "" {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "event":
				kind = value
			case "data":
				data = value
			}
			continue
		}
		if end, err := f.got(kind, data); end || err != nil {
			return end, err
		}
		kind, data = "", ""
	}
}

// cut says of a connection that has ended without an end that it was cut.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// got takes one message of the stream.
func (f *follower) got(kind, data string) (end bool, err error) {
	switch kind {
	case "end":
		return true, nil
	case "problem":
		p := &admin.Problem{}
		if err := json.Unmarshal([]byte(data), p); err != nil {
			return false, fmt.Errorf("follow run %s: %w", f.run, err)
		}
		return false, p
	case "event":
		var e admin.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return false, fmt.Errorf("follow run %s: %w", f.run, err)
		}
		if e.Seq < f.next { // it was got before
			return false, nil
		}
		f.next, f.last = e.Seq+1, e.Seq
		return !f.yield(e, nil), nil
	}
	return false, nil // a comment, or what a newer server says
}
