package uitest_test

import (
	"context"
	"iter"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
)

// slow is a service with a run whose step took 8 s and that waited for three days after it.
type slow struct {
	console.Service
	created time.Time
	waits   uint64 // number of the event with which the wait begins
}

const waited = 72 * time.Hour

func (s *slow) at(e *admin.Event) time.Time {
	switch {
	case e.Seq > s.waits:
		return s.created.Add(waited)
	case e.Type == "step_completed" || e.Seq == s.waits:
		return s.created.Add(8 * time.Second)
	}
	return s.created
}

func (s *slow) Run(ctx context.Context, ref string) (admin.Run, error) {
	r, err := s.Service.Run(ctx, ref)
	r.CreatedAt, r.StartedAt, r.UpdatedAt, r.EndedAt = s.created, s.created, s.created.Add(waited), s.created.Add(waited)
	return r, err
}

func (s *slow) Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		for e, err := range s.Service.Follow(ctx, ref, f) {
			if e.Time = s.at(&e); !yield(e, err) {
				return
			}
		}
	}
}

// The test proves that a browser draws the step wide, and the wait of three days after it as a
// narrow band with its duration. Zooming into the step enlarges it.
func TestOPS2_ABrowserDrawsWorkBesideAWaitOfDays(t *testing.T) {
	s := newSite(t, memstore.New())
	run := s.Start("talk", "order-1")
	s.Until(run, "waiting")
	if _, err := s.Direct.Send(t.Context(), run, "verdict", admin.Message{Payload: admin.Payload(`"bye"`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Direct.Wait(t.Context(), run, time.Minute); err != nil {
		t.Fatal(err)
	}
	over := &slow{Service: s.Direct, created: time.Now().Add(-waited).Add(-time.Hour).Truncate(time.Second)}
	stepped := false
	for e, err := range s.Direct.Follow(t.Context(), run, admin.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if stepped = stepped || e.Type == "step_completed"; stepped && e.Type == "wait_created" && over.waits == 0 {
			over.waits = e.Seq
		}
	}
	server := httptest.NewServer(console.Over(func(admin.Principal) console.Service { return over }, console.Config{Prefix: "/flows/", Store: "orders@test"}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL + "/flows/"
	const share = `(s) => document.querySelector(s).getBoundingClientRect().width / document.querySelector("td.track").getBoundingClientRect().width`
	var step, wait float64
	var text string
	s.run("the timeline", chromedp.EmulateViewport(1280, 900), chromedp.Navigate(s.url+"runs/"+run), chromedp.WaitVisible(".lanes"),
		chromedp.Evaluate("("+share+")('td.track rect.b.done')", &step), chromedp.Evaluate("("+share+")('.lanes tbody rect.idle')", &wait), chromedp.Evaluate(`document.querySelector(".scale").textContent`, &text))
	if step < 0.6 || wait > 0.3 {
		t.Errorf("the step has %.2f of the width, the wait of three days %.2f: want at least 0.6, and at most 0.3\n%s", step, wait, text)
	}
	var zoomed float64
	var window string
	s.run("zoom", chromedp.Evaluate(`{
		const box = document.querySelector("td.track rect.b.done").getBoundingClientRect();
		document.querySelector("td.track").dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, ctrlKey: true, deltaY: -1, clientX: box.left, clientY: box.top }));
	}`, nil), until(`location.search.includes("to=")`), until(`document.querySelector("[data-timeline]").dataset.to < 259200000`), chromedp.WaitVisible(".lanes"),
		chromedp.Evaluate(`document.querySelector("[data-timeline]").dataset.to`, &window), chromedp.Evaluate("("+share+")('td.track rect.b.done')", &zoomed))
	if zoomed < 0.95 {
		t.Errorf("after a zoom to %s ms the step has %.2f of the width, want all of it", window, zoomed)
	}
	s.draws("runs/" + run)
}
