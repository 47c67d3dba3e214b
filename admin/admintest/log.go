package admintest

import (
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func shows(s *Scene) {
	for _, what := range []string{"good", "bad", "next"} {
		ref := s.Ended(what, "show-"+what)
		want, err := s.Direct.Run(s.ctx(), ref)
		if err != nil {
			s.Fatal(err)
		}
		got, err := s.Service.Run(s.ctx(), ref)
		if err != nil {
			s.Error(err)
		}
		same(s, what, got, want)
		if what == "bad" && (got.Failure == nil || !strings.Contains(got.Failure.Message, "the carrier is closed") || !slices.Contains(got.Actions, "retry")) {
			s.Errorf("bad: got %+v", got)
		}
		if what == "next" && got.Next == "" {
			s.Errorf("next: got %+v", got)
		}
	}
}

func readsLogs(s *Scene) {
	ref := s.Ended("bad", "logs")
	var all []admin.Event
	for from := uint64(1); from != 0; {
		page, err := s.Service.Events(s.ctx(), ref, from, 2)
		if err != nil || len(page.Events) == 0 {
			s.Fatalf("from %d: %+v, %v", from, page, err)
		}
		all = append(all, page.Events...)
		from = page.Next
	}
	want, err := s.Direct.Events(s.ctx(), ref, 0, 0)
	if err != nil {
		s.Fatal(err)
	}
	same(s, "the log", all, want.Events)
	none, err := s.Service.Events(s.ctx(), ref, 1000, 0)
	if err != nil || len(none.Events) != 0 || none.Next != 0 {
		s.Errorf("behind the end: %+v, %v", none, err)
	}
}

// log returns what follow delivers of a log, and its error.
func log(s *Scene, service admin.Service, ref string, from uint64) (all []admin.Event, err error) {
	for e, err := range service.Follow(s.ctx(), ref, from) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func followsEnded(s *Scene) {
	ref := s.Ended("good", "follow-ended")
	want, err := log(s, s.Direct, ref, 0)
	if err != nil {
		s.Fatal(err)
	}
	got, err := log(s, s.Service, "id:follow-ended", 0)
	if err != nil {
		s.Error(err)
	}
	same(s, "the log", got, want)
}

func followsLive(s *Scene) {
	ref := s.Start("wait", "follow-live")
	s.Until(ref, "waiting")
	seen := map[uint64]int{}
	last := uint64(0)
	for e, err := range s.Service.Follow(s.ctx(), ref, 1) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Seq != last+1 {
			s.Errorf("event %d follows %d", e.Seq, last)
		}
		if last = e.Seq; e.Seq == 1 { // the rest comes while it is followed
			if _, err := s.Direct.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("true")}); err != nil {
				s.Fatal(err)
			}
		}
		seen[e.Seq]++
	}
	r, err := s.Direct.Run(s.ctx(), ref)
	if err != nil || r.Status != "completed" || r.Events != last {
		s.Errorf("the run is %s and has %d events, %d came: %v", r.Status, r.Events, last, err)
	}
}

func followsFrom(s *Scene) {
	ref := s.Ended("good", "follow-from")
	want, err := log(s, s.Direct, ref, 3)
	if err != nil || len(want) == 0 || want[0].Seq != 3 {
		s.Fatalf("got %+v, %v", want, err)
	}
	got, err := log(s, s.Service, ref, 3)
	if err != nil {
		s.Error(err)
	}
	same(s, "the log from 3", got, want)
	for e, err := range s.Service.Follow(s.ctx(), ref, 1) { // a reader that has had enough
		if err != nil || e.Seq != 1 {
			s.Errorf("got %+v, %v", e, err)
		}
		break
	}
}

func waits(s *Scene) {
	ref := s.Start("wait", "waits")
	s.Until(ref, "waiting")
	if r, err := s.Service.Wait(s.ctx(), ref, 0); err != nil || r.Status != "waiting" {
		s.Errorf("no time: got %+v, %v", r, err)
	}
	if r, err := s.Service.Wait(s.ctx(), ref, 10*time.Millisecond); err != nil || r.Status != "waiting" {
		s.Errorf("too little time: got %+v, %v", r, err)
	}
	if _, err := s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	if r, err := s.Service.Wait(s.ctx(), "id:waits", time.Minute); err != nil || r.Status != "completed" {
		s.Errorf("got %+v, %v", r, err)
	}
	first := s.Start("next", "waits-next")
	r, err := s.Service.Wait(s.ctx(), first, time.Minute)
	if err != nil || r.Status != "completed" || r.ID == first || string(r.Result) != `"label of good"` {
		s.Errorf("a run that continues: got %+v, %v", r, err)
	}
}
