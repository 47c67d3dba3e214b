package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
)

// live opens a live connection, and returns a function that reads the next update.
func (s *server) live(topics string, header ...string) func() (message, admin.News) {
	s.Helper()
	next := s.events("/v1/live?topics="+url.QueryEscape(topics), header...)
	return func() (message, admin.News) {
		s.Helper()
		m := said(next)
		var n admin.News
		if err := json.Unmarshal([]byte(m.data), &n); err != nil {
			s.Fatalf("%+v: %v", m, err)
		}
		return m, n
	}
}

func TestOPS3_LiveTellsOfRunsAndLists(t *testing.T) {
	s := serve(t, api.Config{})
	list := remote.ListTopic(admin.Filter{Workflow: "api.collect", Statuses: []string{"waiting", "completed"}})
	run := remote.RunTopic("id:of-the-test")
	next := s.live(run + "," + list + ",run:wrun_00000000000000000000000000")
	var page *admin.RunPage
	var events []uint64
	missing, ended, sent := false, false, false
	lastID := ""
	for !ended || page == nil || len(page.Runs) != 1 || page.Runs[0].Status != "completed" || !missing {
		m, n := next()
		lastID = m.id
		switch {
		case n.Topic == run && n.Event != nil && m.event == "event":
			if events = append(events, n.Event.Seq); n.Event.Seq != uint64(len(events)) {
				t.Fatalf("got event %d after %v", n.Event.Seq, events)
			}
		case n.Topic == run && n.Ended && m.event == "over":
			ended = true
		case n.Topic == list && n.Page != nil && m.event == "list":
			if page = n.Page; len(page.Runs) == 1 && !sent {
				sent = true
				s.send("stop")
			}
		case n.Topic == "run:wrun_00000000000000000000000000" && n.Problem != nil && n.Problem.Code == admin.CodeNotFound && m.event == "over":
			missing = true
		default:
			t.Fatalf("got %+v: %+v", m, n)
		}
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil || uint64(len(events)) != r.Events {
		t.Errorf("got %d events of %+v, %v", len(events), r, err)
	}
	again := s.live(run+","+list+",run:wrun_00000000000000000000000000", "Last-Event-ID: "+lastID)
	for range 2 { // no update is repeated, because one run has ended and the other does not exist
		if m, n := again(); m.event != "over" || n.Page != nil || n.Event != nil {
			t.Errorf("after the last one: got %+v", m)
		}
	}
	over := s.events("/v1/live?topics=" + run)
	for m := said(over); m.event != "end"; m = said(over) { // the topics are only runs, so the stream ends
		if m.event != "event" && m.event != "over" {
			t.Fatalf("got %+v", m)
		}
	}
}

func TestOPS3_LiveOfOneOwnerTellsNothingOfOthers(t *testing.T) {
	entry, secret := admin.NewToken(admin.Token{Name: "eve", Role: admin.RoleViewer, Owner: "eve", Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, api.Config{Auth: tokens})
	mine, err := s.direct.Start(t.Context(), admin.Start{Workflow: "api.collect", Tags: map[string]string{"owner": "eve"}})
	if err != nil {
		t.Fatal(err)
	}
	auth := "Authorization: Bearer " + secret
	foreign := remote.ListTopic(admin.Filter{Tags: map[string]string{"owner": "bob"}})
	topics := []string{"run:" + s.run, "run:" + mine.Run, "list:", foreign}
	next := s.live(strings.Join(topics, ","), auth)
	got := map[string]bool{}
	for len(got) < len(topics) {
		m, n := next()
		got[n.Topic] = true
		switch n.Topic {
		case topics[0]:
			if n.Problem == nil || n.Problem.Code != admin.CodeNotFound {
				t.Errorf("the run of another owner: %+v", m)
			}
		case topics[1]:
			if n.Event == nil || n.Event.Payload != nil {
				t.Errorf("its own run: %+v", m)
			}
		case topics[2]:
			if n.Page == nil || len(n.Page.Runs) != 1 || n.Page.Runs[0].ID != mine.Run {
				t.Errorf("its list: %+v", m)
			}
		case topics[3]:
			if n.Problem == nil || n.Problem.Code != admin.CodeForbidden {
				t.Errorf("the list of another owner: %+v", m)
			}
		}
	}
	s.wants("nobody", s.ask("GET", "/v1/live?topics=list:", ""), 401, admin.CodeUnauthenticated)
	s.wants("a stream by a viewer", s.ask("GET", "/v1/runs/"+mine.Run+"/streams/told", "", auth), 403, admin.CodeForbidden)
	s.wants("following a stream by a viewer", s.ask("GET", "/v1/runs/"+mine.Run+"/streams/told/follow", "", auth), 403, admin.CodeForbidden)
}

func TestOPS3_LiveAndFollowRefuseWhatMakesNoSense(t *testing.T) {
	s := serve(t, api.Config{Streams: 3})
	run := "/v1/runs/" + s.run
	for what, tt := range map[string]struct{ path, header string }{
		"no topics":                       {"/v1/live", ""},
		"an empty topic":                  {"/v1/live?topics=list:,", ""},
		"a topic that is none":            {"/v1/live?topics=workers", ""},
		"a topic with an escape":          {"/v1/live?topics=%1b%5b31m:x", ""},
		"a run without a name":            {"/v1/live?topics=run:", ""},
		"a run that is escaped badly":     {"/v1/live?topics=run:%25zz", ""},
		"a filter that is none":           {"/v1/live?topics=list:nobody%3D1", ""},
		"a status that is none":           {"/v1/live?topics=list:status%3Dasleep", ""},
		"too many topics":                 {"/v1/live?topics=" + strings.TrimSuffix(strings.Repeat("list:,", 51), ","), ""},
		"an id of other topics":           {"/v1/live?topics=list:,list:oldest%3Dtrue", "Last-Event-ID: 1"},
		"an id that is no number":         {"/v1/live?topics=run:" + s.run, "Last-Event-ID: x"},
		"an id that is negative":          {"/v1/live?topics=run:" + s.run, "Last-Event-ID: -1"},
		"a batch of nothing":              {run + "/follow?batch=0", ""},
		"a batch without bound":           {run + "/follow?batch=1001", ""},
		"a delay without bound":           {run + "/streams/told/follow?delay=2s", ""},
		"a delay that is negative":        {run + "/streams/told/follow?delay=-1s", ""},
		"a type that is none":             {run + "/follow?type=step_done", ""},
		"an entity that is none":          {run + "/follow?entity=step_1", ""},
		"a chunk that is no number":       {run + "/streams/told?from=x", ""},
		"a page without bound":            {run + "/streams/told?limit=1001", ""},
		"an id of a stream that is none":  {run + "/streams/told/follow", "Last-Event-ID: 1.2"},
		"an id of a stream without bound": {run + "/streams/told/follow", "Last-Event-ID: 9223372036854775808"},
	} {
		s.wants(what, s.ask("GET", tt.path, "", lines(tt.header)...), 400, admin.CodeInput)
	}
	s.wants("a stream of no run", s.ask("GET", "/v1/runs/id:nobody/streams/told/follow", ""), 404, admin.CodeNotFound)
	for range 3 {
		s.live("list:")()
	}
	s.wants("more connections than one may have", s.ask("GET", "/v1/live?topics=list:", ""), 429, admin.CodeBusy)
}

// TestOPS3_APrincipalWatchesSoManyLists proves that the number of watched lists is limited per
// principal, over all of its connections, because each watched list costs a read per second.
func TestOPS3_APrincipalWatchesSoManyLists(t *testing.T) {
	tokens, secrets := tokensOf(t, admin.Token{Name: "ada", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)}, admin.Token{Name: "bob", Role: admin.RoleViewer, Expires: time.Now().Add(time.Hour)})
	s := serve(t, api.Config{Auth: tokens, Lists: 5})
	ada, bob := "Authorization: Bearer "+secrets[0], "Authorization: Bearer "+secrets[1]
	ask := func(topics, who string) got { return s.ask("GET", "/v1/live?topics="+topics, "", who) }
	s.live("list:,list:,list:,run:"+s.run, ada)()
	s.wants("three and three", ask("list:,list:,list:", ada), 429, admin.CodeBusy)
	s.wants("more than anybody may", ask("list:,list:,list:,list:,list:,list:", bob), 429, admin.CodeBusy)
	s.live("list:,list:", ada)()
	s.wants("one more", ask("list:", ada), 429, admin.CodeBusy)
	s.live("run:"+s.run, ada)() // runs are not limited
	s.live("list:,list:,list:,list:,list:", bob)()
}

// TestOPS3_ManyLiveConnectionsAskForAListOnceASecond proves that 500 tabs that show the same list
// over HTTP cause one read per second in total, and that all of them receive the state of the list.
func TestOPS3_ManyLiveConnectionsAskForAListOnceASecond(t *testing.T) {
	const tabs = 500
	s := serve(t, api.Config{})
	s.Config.Handler = api.New(s.direct, api.Config{Streams: tabs, Lists: tabs})
	service, err := remote.New(s.URL, remote.Config{Client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all, first sync.WaitGroup
	first.Add(tabs)
	began := time.Now()
	for range tabs {
		all.Go(func() {
			pages := 0
			for n, err := range service.Live(ctx, remote.ListTopic(admin.Filter{Workflow: "api.collect"})) {
				if err != nil || n.Page == nil {
					t.Errorf("got %+v, %v", n, err)
					break
				}
				if pages++; pages == 1 {
					first.Done()
				}
				if n.Page.Runs[0].Status == "completed" {
					return
				}
			}
			if pages == 0 {
				first.Done()
			}
		})
	}
	first.Wait()
	s.send("stop")
	all.Wait()
	passed := time.Since(began)
	asked, most := int(s.store.lists.Load()), int(passed/time.Second)+1
	if asked > most || asked < 2 {
		t.Errorf("in %v it was asked for %d times, want 2 to %d", passed, asked, most)
	}
	t.Logf("%d tabs, %d questions in %v", tabs, asked, passed)
}

// TestOPS3_LiveThatIsCutDeliversEachEventOnceInOrder proves that a reader receives each event of
// each topic once and in order, although its live connection is cut a thousand times.
func TestOPS3_LiveThatIsCutDeliversEachEventOnceInOrder(t *testing.T) {
	s := serve(t, api.Config{})
	other, err := s.direct.Start(t.Context(), admin.Start{Workflow: "api.collect", ID: "another"})
	if err != nil {
		t.Fatal(err)
	}
	cut, service := s.cutOff(manyCuts)
	after := cut.after
	cut.after = func() int { return min(after(), math.MaxInt/2) * 2 } // twice the number of bytes, because the IDs of messages are longer
	sendBoth := func(item string) {
		for _, ref := range []string{s.run, other.Run} {
			if _, err := s.direct.Send(t.Context(), ref, "items", admin.Message{Payload: admin.Payload(`"` + item + `"`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		sendBoth("item")
	}
	last, ended, ending := map[string]uint64{}, map[string]bool{}, false
	for n, err := range service.Live(t.Context(), remote.RunTopic(s.run), remote.RunTopic(other.Run)) {
		switch {
		case err != nil:
			t.Fatal(err)
		case n.Ended:
			ended[n.Topic] = true
			continue
		case n.Event == nil || n.Event.Seq != last[n.Topic]+1:
			t.Fatalf("%+v follows event %d", n, last[n.Topic])
		}
		last[n.Topic] = n.Event.Seq
		switch cuts := cut.cuts.Load(); {
		case cuts >= manyCuts && !ending:
			ending = true
			sendBoth("stop")
		case !ending && n.Topic == remote.RunTopic(s.run) && n.Event.Type == "message_received": // adds one message for each message that was received
			sendBoth("item")
		}
	}
	for _, ref := range []string{s.run, other.Run} {
		r, err := s.direct.Run(t.Context(), ref)
		if topic := remote.RunTopic(ref); err != nil || r.Status != "completed" || r.Events != last[topic] || !ended[topic] {
			t.Errorf("got %d events of run %+v, ended %v, %v", last[topic], r, ended[topic], err)
		}
	}
	if cuts := cut.cuts.Load(); cuts < manyCuts {
		t.Errorf("the reader was cut off %d times, want %d", cuts, manyCuts)
	}
	t.Log(fmt.Sprint(last), cut.cuts.Load())
}
