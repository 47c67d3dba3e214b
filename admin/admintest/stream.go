package admintest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
)

// talks starts a run with the input "talk", and waits until the run can receive messages.
func (s *Scene) talks(id string) string {
	s.Helper()
	ref := s.Start("talk", id)
	s.Until(ref, "waiting")
	return ref
}

// say sends a message to a run that talks has started.
func (s *Scene) say(ref, text string) {
	s.Helper()
	if _, err := s.Direct.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload(`"` + text + `"`)}); err != nil {
		s.Fatal(err)
	}
}

func chunkText(c admin.Chunk) string { return fmt.Sprint(c.Index, " ", string(c.Value)) }

func listsStreams(s *Scene) {
	ref := s.talks("list-streams")
	got, err := s.Service.Streams(s.ctx(), "id:list-streams", admin.StreamFilter{})
	if err != nil {
		s.Fatal(err)
	}
	ids := map[string]bool{}
	for i := range got.Streams {
		one := &got.Streams[i]
		if !strings.HasPrefix(one.ID, event.PrefixStream+"_") || ids[one.ID] {
			s.Errorf("the id of %s is %s", one.Name, one.ID)
		}
		ids[one.ID], one.ID = true, ""
	}
	want := admin.StreamList{Streams: []admin.StreamState{{Name: recent.Name(), First: 4, Last: 5}, {Name: words.Name(), First: 1, Last: 2}}}
	same(s, "streams of an open run", got, want)
	first, err := s.Service.Streams(s.ctx(), ref, admin.StreamFilter{Limit: 1})
	if err != nil || len(first.Streams) != 1 || first.Next != recent.Name() || !ids[first.Streams[0].ID] {
		s.Errorf("the first page: %+v, %v", first, err)
	}
	rest, err := s.Service.Streams(s.ctx(), ref, admin.StreamFilter{After: first.Next, Limit: 1})
	if err != nil || len(rest.Streams) != 1 || rest.Streams[0].Name != words.Name() || rest.Next != "" {
		s.Errorf("the second page: %+v, %v", rest, err)
	}
	s.say(ref, "bye")
	if _, err := log(s, s.Direct, ref, 1); err != nil {
		s.Fatal(err)
	}
	if got, err := s.Service.Streams(s.ctx(), ref, admin.StreamFilter{}); err != nil || len(got.Streams) != 2 || !got.Streams[0].Ended || !got.Streams[1].Ended {
		s.Errorf("after the end of the run: %+v, %v", got, err)
	}
	if got, err := s.Service.Streams(s.ctx(), s.Ended("good", "no-streams"), admin.StreamFilter{}); err != nil || got.Streams == nil || len(got.Streams) != 0 {
		s.Errorf("a run without streams: %+v, %v", got, err)
	}
}

func readsStreams(s *Scene) {
	ref := s.talks("read-stream")
	page, err := s.Service.Stream(s.ctx(), "id:read-stream", words.Name(), 0, 0)
	if err != nil {
		s.Fatal(err)
	}
	for i := range page.Chunks { // a chunk of a step names the step
		c := &page.Chunks[i]
		if byStep := c.Step != "" && c.Attempt == 1 && c.Run == ref; byStep != (string(c.Value) == `"world"`) || !byStep && (c.Run != "" || c.Attempt != 0) {
			s.Errorf("got %+v", c)
		}
		c.Run, c.Step, c.Attempt = "", "", 0
	}
	want := admin.ChunkPage{Run: ref, Name: words.Name(), First: 1, Last: 2, Chunks: []admin.Chunk{{Index: 1, Value: admin.Payload(`"hello"`)}, {Index: 2, Value: admin.Payload(`"world"`)}}}
	same(s, "a stream that is open", page, want)
	one, err := s.Service.Stream(s.ctx(), ref, words.Name(), 1, 1)
	if err != nil || len(one.Chunks) != 1 || one.Next != 2 || one.Last != 2 {
		s.Errorf("the first chunk: %+v, %v", one, err)
	}
	two, err := s.Service.Stream(s.ctx(), ref, words.Name(), one.Next, 1)
	if err != nil || len(two.Chunks) != 1 || two.Chunks[0].Index != 2 || two.Next != 0 {
		s.Errorf("the second chunk: %+v, %v", two, err)
	}
	kept, err := s.Service.Stream(s.ctx(), ref, recent.Name(), 2, 0)
	if err != nil || len(kept.Chunks) != 2 || kept.First != 4 || kept.Last != 5 || chunkText(kept.Chunks[0]) != "4 4" {
		s.Errorf("a stream that keeps its last two: %+v, %v", kept, err)
	}
	for what, from := range map[string]uint64{"unwritten": 0, words.Name(): 100} {
		got, err := s.Service.Stream(s.ctx(), ref, what, from, 0)
		if err != nil || len(got.Chunks) != 0 || got.Chunks == nil || got.Next != 0 || got.Ended {
			s.Errorf("%s from %d: %+v, %v", what, from, got, err)
		}
	}
	s.say(ref, "bye")
	if _, err := log(s, s.Direct, ref, 1); err != nil {
		s.Fatal(err)
	}
	if got, err := s.Service.Stream(s.ctx(), ref, words.Name(), 3, 0); err != nil || !got.Ended {
		s.Errorf("after the end of the run: %+v, %v", got, err)
	}
}

func followsStreams(s *Scene) {
	ref := s.talks("follow-stream")
	var got []string
	for c, err := range s.Service.FollowStream(s.ctx(), "id:follow-stream", words.Name(), 0) {
		if err != nil {
			s.Fatal(err)
		}
		switch got = append(got, chunkText(c)); c.Index { // the other chunks are written while the stream is followed
		case 2:
			s.say(ref, "again")
		case 3:
			s.say(ref, "bye")
		}
	}
	same(s, "the stream", got, []string{`1 "hello"`, `2 "world"`, `3 "\"again\""`})
	for c, err := range s.Service.FollowStream(s.ctx(), ref, words.Name(), 2) { // the reader stops before the end
		if err != nil || c.Index != 2 {
			s.Errorf("from 2: got %+v, %v", c, err)
		}
		break
	}
	for c, err := range s.Service.FollowStream(s.ctx(), ref, words.Name(), 4) {
		s.Errorf("after the end: got %+v, %v", c, err)
	}
	for c, err := range s.Service.FollowStream(s.ctx(), ref, "unwritten", 0) {
		s.Errorf("nothing was written: got %+v, %v", c, err)
	}
}

func lagsBehindStreams(s *Scene) {
	ref := s.talks("lag")
	var lag *admin.LagError
	for c, err := range s.Service.FollowStream(s.ctx(), ref, recent.Name(), 2) {
		if !errors.As(err, &lag) {
			s.Fatalf("got %+v, %v", c, err)
		}
	}
	if lag == nil || lag.Run != ref || lag.Stream != recent.Name() || lag.Wanted != 2 || lag.Next != 4 {
		s.Fatalf("got %+v", lag)
	}
	problem(s, "a chunk that is not kept", lag, http.StatusGone, admin.CodeLag)
	for c, err := range s.Service.FollowStream(s.ctx(), ref, recent.Name(), lag.Next) {
		if err != nil || chunkText(c) != "4 4" {
			s.Errorf("got %+v, %v", c, err)
		}
		break
	}
	ended, cancel := context.WithCancel(s.ctx())
	defer cancel()
	var err error
	for _, err = range s.Service.FollowStream(ended, ref, recent.Name(), 0) {
		if err != nil {
			break
		}
		cancel()
	}
	problem(s, "an ended context", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
}

func refusesStreams(s *Scene) {
	ref := s.Start("wait", "bad-streams")
	calls := map[string]func(Service) error{}
	for _, of := range []string{"", "order-1", "id:nobody", "wrun_00000000000000000000000000", "..", "\xff"} {
		calls["stream of "+of] = func(a Service) error { _, err := a.Stream(s.ctx(), of, "words", 0, 0); return err }
		calls["streams of "+of] = func(a Service) error { _, err := a.Streams(s.ctx(), of, admin.StreamFilter{}); return err }
		calls["following a stream of "+of] = func(a Service) error { return last(a.FollowStream(s.ctx(), of, "words", 0)) }
	}
	for _, name := range []string{"", strings.Repeat("x", 201)} {
		calls["stream "+name] = func(a Service) error { _, err := a.Stream(s.ctx(), ref, name, 0, 0); return err }
		calls["following stream "+name] = func(a Service) error { return last(a.FollowStream(s.ctx(), ref, name, 0)) }
	}
	for _, limit := range []int{-1, 1001} {
		calls[fmt.Sprint("a list of ", limit)] = func(a Service) error {
			_, err := a.Streams(s.ctx(), ref, admin.StreamFilter{Limit: limit})
			return err
		}
		calls[fmt.Sprint("a page of ", limit)] = func(a Service) error { _, err := a.Stream(s.ctx(), ref, "words", 0, limit); return err }
	}
	for what, call := range calls {
		sameProblem(s, what, call(s.Service), call(s.Direct))
	}
	for _, name := range []string{"a/b", "..", ".", "%2F", "?x=1", "\n", "\x1b[31m", "ü\u202e"} {
		if page, err := s.Service.Stream(s.ctx(), ref, name, 0, 0); err != nil || page.Name != name || page.Run != ref {
			s.Errorf("stream %q: %+v, %v", name, page, err)
		}
	}
}

// last returns the error that ends an iterator, or nil.
func last[T any](all func(func(T, error) bool)) (err error) {
	for _, err = range all {
		if err != nil {
			break
		}
	}
	return err
}
