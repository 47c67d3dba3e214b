package admintest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func hostileNames(s *Scene) {
	for _, id := range []string{
		"a/b", "/", ".", "..", "../../etc", "a//b", "%2F", "a%", "a b", "a+b", "ü/β\u202e", "<script>", "?x=1#y", "\x1b[31m", "\n", "id:id:", ":", `\`, "a;b,c", "~", "count", "events",
	} {
		ref := s.Start("good", id)
		r, err := s.Service.Run(s.ctx(), "id:"+id)
		if err != nil || r.ID != ref || r.WorkflowID != id {
			s.Errorf("%q: got %+v, %v", id, r, err)
		}
		if r, err = s.Service.Wait(s.ctx(), "id:"+id, time.Minute); err != nil || r.ID != ref {
			s.Errorf("%q: got %+v, %v", id, r, err)
		}
	}
	ref := s.Start("wait", "hostile-topics")
	for _, topic := range []string{"..", ".", "a/b", "%2e", "\n", "é"} {
		if _, err := s.Service.Send(s.ctx(), ref, topic, admin.Message{Payload: admin.Payload("1")}); err != nil {
			s.Errorf("topic %q: %v", topic, err)
		}
	}
}

func badInput(s *Scene) {
	ref := s.Start("wait", "bad-input")
	const unknown = "wrun_00000000000000000000000000"
	long := strings.Repeat("x", 300)
	calls := map[string]func(Service) error{}
	for _, name := range []string{"", "order-1", "id:", "id:nobody", unknown, "..", "a/b", "\xff", "id:\xff"} {
		calls[fmt.Sprintf("run %q", name)] = func(a Service) error { _, err := a.Run(s.ctx(), name); return err }
		calls[fmt.Sprintf("events %q", name)] = func(a Service) error { _, err := a.Events(s.ctx(), name, 0, 0); return err }
		calls[fmt.Sprintf("wait %q", name)] = func(a Service) error { _, err := a.Wait(s.ctx(), name, time.Second); return err }
		calls[fmt.Sprintf("follow %q", name)] = func(a Service) error { _, err := log(s, a, name, 1); return err }
		calls[fmt.Sprintf("cancel %q", name)] = func(a Service) error { _, err := a.Act(s.ctx(), name, admin.Action{Verb: "cancel"}); return err }
		calls[fmt.Sprintf("value %q", name)] = func(a Service) error { _, err := a.Value(s.ctx(), name, "progress"); return err }
		calls[fmt.Sprintf("send %q", name)] = func(a Service) error {
			_, err := a.Send(s.ctx(), name, "verdict", admin.Message{Payload: admin.Payload("1")})
			return err
		}
		calls[fmt.Sprintf("ask %q", name)] = func(a Service) error {
			_, err := a.Ask(s.ctx(), name, limits.Name(), admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, f := range map[string]admin.Filter{
		"status": {Statuses: []string{"asleep"}}, "cursor": {Cursor: "no"}, "limit": {Limit: 1001}, "negative limit": {Limit: -1}, "budget": {Budget: -1},
		"times": {Since: time.Now(), Until: time.Now().Add(-time.Hour)}, "parent": {Parent: "order-1"}, "root": {Root: "order-1"},
	} {
		calls["list by "+what] = func(a Service) error { _, err := a.Runs(s.ctx(), f); return err }
	}
	calls["a page of events that is too large"] = func(a Service) error { _, err := a.Events(s.ctx(), ref, 1, 1001); return err }
	calls["a page of less than no events"] = func(a Service) error { _, err := a.Events(s.ctx(), ref, 1, -1); return err }
	calls["no action"] = func(a Service) error { _, err := a.Act(s.ctx(), ref, admin.Action{}); return err }
	for what, name := range map[string]string{"no": "", "a long": long} {
		calls["value of "+what+" name"] = func(a Service) error { _, err := a.Value(s.ctx(), ref, name); return err }
		calls["ask of "+what+" name"] = func(a Service) error {
			_, err := a.Ask(s.ctx(), ref, name, admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, topic := range map[string]string{"no": "", "a long": strings.Repeat("x", 2000), "a zero byte in its": "a\x00", "no UTF-8 in its": "\xff"} {
		calls["topic of "+what+" name"] = func(a Service) error {
			_, err := a.Send(s.ctx(), ref, topic, admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, payload := range map[string]string{"no": "", "half a": `{"a":`, "an open": `"`, "two": "1 2"} {
		calls["message of "+what+" JSON"] = func(a Service) error {
			_, err := a.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload(payload)})
			return err
		}
	}
	for what, call := range calls {
		sameProblem(s, what, call(s.Service), call(s.Direct))
	}
}

func endsWithContext(s *Scene) {
	ref := s.Start("wait", "contexts")
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err := s.Service.Run(ended, ref)
	problem(s, "a run", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	_, err = s.Service.Wait(ended, ref, time.Minute)
	problem(s, "waiting", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	following, cancel := context.WithCancel(s.ctx())
	defer cancel()
	for _, err = range s.Service.Follow(following, ref, admin.EventFilter{}) {
		if err != nil {
			break
		}
		cancel()
	}
	problem(s, "following", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	short, cancel := context.WithTimeout(s.ctx(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Service.Wait(short, ref, time.Minute)
	problem(s, "waiting longer than there is time", err, http.StatusGatewayTimeout, admin.CodeTimeout)
}
