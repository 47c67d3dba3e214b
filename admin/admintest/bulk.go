package admintest

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// bulkDone starts a bulk action by the token of a preview, and waits for its end.
func (s *Scene) bulkDone(r admin.BulkRequest) admin.Bulk {
	s.Helper()
	p, err := s.Service.Preview(s.ctx(), r)
	if err != nil {
		s.Fatal(err)
	}
	b, err := s.Service.StartBulk(s.ctx(), admin.NewBulk{Token: p.Token})
	if err != nil {
		s.Fatal(err)
	}
	return s.bulkEnd(b.ID)
}

// bulkEnd waits for the end of a bulk action.
func (s *Scene) bulkEnd(id string) admin.Bulk {
	s.Helper()
	if _, err := s.Service.Wait(s.ctx(), "id:"+id, time.Minute); err != nil {
		s.Fatal(err)
	}
	b, err := s.Service.Bulk(s.ctx(), id)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// tagged starts n runs with a tag, and waits until they have the given status.
func (s *Scene) tagged(n int, what, tag, status string) []string {
	s.Helper()
	var all []string
	for range n {
		got, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input(what), Tags: map[string]string{"bulk": tag}})
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, got.Run)
	}
	for _, ref := range all {
		if status == "waiting" {
			s.Until(ref, status)
		} else if r, err := s.Direct.Wait(s.ctx(), ref, time.Minute); err != nil || r.Status != status {
			s.Fatalf("got %+v, %v", r, err)
		}
	}
	return all
}

func actsOnMany(s *Scene) {
	filter := admin.Filter{Tags: map[string]string{"bulk": "many"}}
	waiting := s.tagged(12, "wait", "many", "waiting")
	ended := s.tagged(1, "good", "many", "completed")[0]
	request := admin.BulkRequest{Filter: filter, Action: admin.Action{Verb: "cancel", Reason: "all of them"}}
	p, err := s.Service.Preview(s.ctx(), request)
	if err != nil {
		s.Fatal(err)
	}
	same(s, "statuses of the preview", p.Statuses, []admin.BulkCount{{Name: "waiting", Runs: 12}, {Name: "completed", Runs: 1}})
	same(s, "refusals of the preview", p.Refusals, []admin.BulkCount{{Name: "completed", Runs: 1}})
	if p.Count != 13 || p.Refused != 1 || len(p.Samples) != 10 || !slices.Contains(append(waiting, ended), p.Samples[0].ID) {
		s.Errorf("got %+v", p)
	}
	later := s.tagged(1, "wait", "many", "waiting")[0] // this run is not in the preview
	b, err := s.Service.StartBulk(s.ctx(), admin.NewBulk{Token: p.Token, Key: "many", Rate: 1000})
	if err != nil {
		s.Fatal(err)
	}
	if again, err := s.Service.StartBulk(s.ctx(), admin.NewBulk{Token: p.Token, Key: "many", Rate: 1000}); err != nil || again.ID != b.ID {
		s.Errorf("the same key: got %+v, %v", again, err)
	}
	_, err = s.Service.StartBulk(s.ctx(), admin.NewBulk{BulkRequest: admin.BulkRequest{All: true, Action: request.Action}, Expect: new(int), Key: "many"})
	problem(s, "a key that was used for something else", err, http.StatusUnprocessableEntity, admin.CodeInput)
	b = s.bulkEnd(b.ID)
	if b.Status != admin.BulkCompleted || b.Total != 13 || b.Done != 12 || b.Refused != 1 || b.Failed+b.Skipped+b.Left != 0 || len(b.Failures) != 1 || b.Failures[0].Run != ended {
		s.Errorf("got %+v", b)
	}
	for _, ref := range waiting {
		if r, err := s.Direct.Wait(s.ctx(), ref, time.Minute); err != nil || r.Status != "cancelled" || !strings.Contains(r.Failure.Message, "all of them") {
			s.Errorf("got %+v, %v", r, err)
		}
	}
	if r, err := s.Direct.Run(s.ctx(), later); err != nil || !r.EndedAt.IsZero() {
		s.Errorf("a run that was not there at the preview: got %+v, %v", r, err)
	}
	page, err := s.Service.Bulks(s.ctx(), admin.BulkFilter{Limit: 1})
	if err != nil || len(page.Bulks) != 1 || page.Bulks[0].ID != b.ID {
		s.Errorf("the list: got %+v, %v", page, err)
	}
}

func retriesMany(s *Scene) {
	s.tagged(3, "bad", "bad", "failed")
	request := admin.BulkRequest{Filter: admin.Filter{Tags: map[string]string{"bulk": "bad"}, Statuses: []string{"failed"}}, Action: admin.Action{Verb: "retry"}}
	if p, err := s.Service.Preview(s.ctx(), request); err != nil || len(p.Groups) != 1 || p.Groups[0].Runs != 3 {
		s.Errorf("groups of failures: got %+v, %v", p, err)
	}
	if b := s.bulkDone(request); b.Done != 3 || b.Total != 3 {
		s.Errorf("got %+v", b)
	}
	request.Action.Verb, request.Filter.Statuses = "restart", []string{"completed"}
	if b := s.bulkDone(request); b.Done != 0 || b.Total != 0 {
		s.Errorf("got %+v", b)
	}
	runs, err := s.Direct.Count(s.ctx(), admin.Filter{Tags: request.Filter.Tags})
	if err != nil || runs.Total != 6 {
		s.Errorf("got %+v, %v: want a new run of each", runs, err)
	}
}

func stopsBulk(s *Scene) {
	s.tagged(3, "wait", "stop", "waiting")
	three := 3
	b, err := s.Service.StartBulk(s.ctx(), admin.NewBulk{
		BulkRequest: admin.BulkRequest{Filter: admin.Filter{Tags: map[string]string{"bulk": "stop"}}, Action: admin.Action{Verb: "pause"}}, Expect: &three, Rate: 1,
	})
	if err != nil {
		s.Fatal(err)
	}
	if b, err = s.Service.StopBulk(s.ctx(), b.ID, admin.Because{}); err != nil {
		s.Fatal(err)
	}
	if b = s.bulkEnd(b.ID); b.Status != admin.BulkStopped || b.Left == 0 || b.Done+b.Left != 3 || b.Speed > float64(b.Rate) {
		s.Errorf("got %+v", b)
	}
	if again, err := s.Service.StopBulk(s.ctx(), b.ID, admin.Because{}); err != nil || again.Status != admin.BulkStopped {
		s.Errorf("stop again: got %+v, %v", again, err)
	}
	_, err = s.Service.StopBulk(s.ctx(), s.bulkDone(admin.BulkRequest{Filter: admin.Filter{Workflow: "nobody"}, Action: admin.Action{Verb: "pause"}}).ID, admin.Because{})
	problem(s, "stop what has ended", err, http.StatusConflict, admin.CodeRefused)
}

func refusesBulk(s *Scene) {
	cancel := admin.Action{Verb: "cancel"}
	filter := admin.Filter{Tags: map[string]string{"bulk": "nobody"}}
	p, err := s.Service.Preview(s.ctx(), admin.BulkRequest{Filter: filter, Action: cancel})
	if err != nil || p.Count != 0 {
		s.Fatalf("got %+v, %v", p, err)
	}
	for what, r := range map[string]admin.BulkRequest{
		"no filter": {Action: cancel}, "only what adds runs": {Filter: admin.Filter{System: true, Children: true}, Action: cancel},
		"no action": {Filter: filter}, "an unknown action": {Filter: filter, Action: admin.Action{Verb: "explode"}},
		"a cursor": {Filter: admin.Filter{Cursor: "x", Workflow: Workflow}, Action: cancel}, "a status that is none": {Filter: admin.Filter{Statuses: []string{"asleep"}}, Action: cancel},
		"a fork from nowhere": {Filter: filter, Action: admin.Action{Verb: "fork"}}, "a long reason": {Filter: filter, Action: admin.Action{Verb: "cancel", Reason: strings.Repeat("x", 5000)}},
	} {
		_, err := s.Service.Preview(s.ctx(), r)
		problem(s, "preview of "+what, err, http.StatusBadRequest, admin.CodeInput)
		_, err = s.Service.StartBulk(s.ctx(), admin.NewBulk{BulkRequest: r, Expect: new(int)})
		problem(s, "start of "+what, err, http.StatusBadRequest, admin.CodeInput)
	}
	one, at := 1, len(p.Token)/2
	forged := func(old, changed string) string { // the token remains readable after the change
		b, err := base64.RawURLEncoding.DecodeString(p.Token)
		if err != nil || !bytes.Contains(b, []byte(old)) {
			s.Fatalf("the token %q has no %q: %v", b, old, err)
		}
		return base64.RawURLEncoding.EncodeToString(bytes.Replace(b, []byte(old), []byte(changed), 1))
	}
	for what, b := range map[string]admin.NewBulk{
		"no token": {}, "a token with zz": {Token: p.Token[:at] + "zz" + p.Token[at+2:]},
		"a token for another action": {Token: forged(`"cancel"`, `"pause"`)}, "a token for another number": {Token: forged(`"count":`, `"count":1`)}, "a token without its sum": {Token: forged("", "x")},
		"half a token": {Token: p.Token[:at]}, "a token that is none": {Token: "ä"}, "no number": {BulkRequest: admin.BulkRequest{Filter: filter, Action: cancel}},
		"a token and a filter": {Token: p.Token, BulkRequest: admin.BulkRequest{Filter: filter}}, "a token and a number": {Token: p.Token, Expect: &one},
		"a negative rate": {Token: p.Token, Rate: -1}, "a rate without bounds": {Token: p.Token, Rate: 1 << 40}, "less than no failures": {Token: p.Token, MaxFailures: -1},
	} {
		_, err := s.Service.StartBulk(s.ctx(), b)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	s.Until(s.Start("wait", "off"), "waiting")
	_, err = s.Service.StartBulk(s.ctx(), admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{WorkflowID: "off"}, Action: cancel}, Expect: new(int)})
	problem(s, "a number that is off", err, http.StatusPreconditionFailed, admin.CodePrecondition)
	for _, id := range []string{"bulk-off", "bulk-0"} { // workflow IDs that belong to no bulk action
		_, err = s.Service.Bulk(s.ctx(), id)
		problem(s, id, err, http.StatusNotFound, admin.CodeNotFound)
	}
	_, err = s.Service.Bulk(s.ctx(), "order-1")
	problem(s, "an id that is none", err, http.StatusBadRequest, admin.CodeInput)
}
