package admintest

import (
	"fmt"
	"net/http"

	"github.com/flowgen/flowgen/admin"
)

// showsInboxes sends messages to a run without a worker and to a run with a worker.
func showsInboxes(s *Scene) {
	started, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: "nobody.serves", ID: "inbox", Input: admin.Payload(`{}`)})
	if err != nil {
		s.Fatal(err)
	}
	none, err := s.Service.Inbox(s.ctx(), started.Run)
	if err != nil {
		s.Fatal(err)
	}
	same(s, "an empty inbox", none, admin.Inbox{Run: started.Run, Items: []admin.InboxItem{}})
	want := admin.Inbox{Run: started.Run, Items: []admin.InboxItem{}, Total: 102}
	for i := range want.Total {
		topic := fmt.Sprintf("topic/%d\u202e", i)
		if _, err := s.Direct.Send(s.ctx(), started.Run, topic, admin.Message{Payload: admin.Payload(fmt.Sprint(i))}); err != nil {
			s.Fatal(err)
		}
		if i < 100 {
			want.Items = append(want.Items, admin.InboxItem{Type: "message_received", Name: topic, Payload: admin.Payload(fmt.Sprint(i))})
		}
	}
	full, err := s.Service.Inbox(s.ctx(), "id:inbox")
	if err != nil {
		s.Fatal(err)
	}
	for i := range full.Items {
		if full.Items[i].ID == "" {
			s.Errorf("item %d has no ID", i)
		}
		full.Items[i].ID = "" // items get random IDs
	}
	same(s, "an inbox", full, want)
	taken := s.Start("wait", "inbox-taken")
	s.Until(taken, "waiting")
	if _, err := s.Direct.Send(s.ctx(), taken, "verdict", admin.Message{Payload: admin.Payload(`true`)}); err != nil {
		s.Fatal(err)
	}
	s.Until(taken, "completed")
	if got, err := s.Service.Inbox(s.ctx(), taken); err != nil || got.Total != 0 || len(got.Items) != 0 {
		s.Errorf("the inbox of a run that has taken all: %+v, %v", got, err)
	}
	_, err = s.Service.Inbox(s.ctx(), "id:nobody")
	problem(s, "of no run", err, http.StatusNotFound, admin.CodeNotFound)
}
