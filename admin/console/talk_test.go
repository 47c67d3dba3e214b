package console_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
)

func TestOPS2_TalkShowsMessagesValuesAndQuestionsAndSendsThem(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	page := s.get("runs/"+run+"/talk", 200)
	has(t, page, "progress", "&#34;wait&#34;", "it waits for", "/runs/"+run+"/send?topic=verdict", "/runs/"+run+"/ask")
	has(t, s.get("runs/"+run+"/send?topic=verdict", 200), `value="verdict"`, "flowctl send "+run)
	has(t, s.post("runs/"+run+"/send", url.Values{"topic": {"verdict"}, "payload": {"yes"}, "key": {"k"}}, 400), "what was typed is not JSON", ">yes<")
	has(t, s.post("runs/"+run+"/ask", url.Values{"name": {"set limit/β"}, "payload": {"21"}, "key": {"a"}}, 200), "Answer to set limit/β", "42")
	has(t, s.post("runs/"+run+"/ask", url.Values{"name": {"set limit/β"}, "payload": {"-1"}, "key": {"b"}}, 422), "a limit is not negative")
	form := url.Values{"topic": {"verdict"}, "payload": {`{"ok":"<b>\u202e"}`}, "key": {"k2"}}
	has(t, s.post("runs/"+run+"/send", form, 200), "The message is durable")
	s.Until(run, "completed")
	page = s.get("runs/"+run+"/talk", 200)
	has(t, page, "verdict", `&lt;b&gt;\u202e`, "set limit/β", "done")
	hasNot(t, page, "/send", "<b>\u202e")
}

// TestOPS2_TalkShowsStreamsAsTheyComeIn proves that the page shows the ends of streams and updates
// them.
func TestOPS2_TalkShowsStreamsAsTheyComeIn(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Start("talk", "order-1")
	s.Until(run, "waiting")
	has(t, s.get("runs/"+run+"/talk", 200), "<h2>Streams</h2>", "words", "&#34;hello&#34;", "of 2")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"live?page="+url.QueryEscape("/runs/"+run+"/talk"), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for i := range 30 {
		s.post("runs/"+run+"/send", url.Values{"topic": {"verdict"}, "payload": {fmt.Sprintf(`"<i>%d"`, i)}, "key": {fmt.Sprint(i)}}, 200)
	}
	var got bytes.Buffer
	b := make([]byte, 64<<10)
	for !strings.Contains(got.String(), "from 13 of 32") {
		n, err := answer.Body.Read(b)
		got.Write(b[:n])
		if err != nil {
			t.Fatalf("the stream ended with %v before the last chunk was in it\n%s", err, mainOf(s.get("runs/"+run+"/talk", 200)))
		}
	}
	has(t, got.String(), "&lt;i&gt;29")
	hasNot(t, got.String(), "<i>29")
}

func TestOPS2_HooksAreListedAndTakePayloads(t *testing.T) {
	s := newSite(t, console.Config{})
	has(t, s.get("inbox", 200), "No hook is open")
	run := s.Start("hook", "order-1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	page := ""
	for !strings.Contains(page, "requests") { // the run opens the asks one after the other
		if ctx.Err() != nil {
			t.Fatalf("the hooks are not there\n%s", mainOf(page))
		}
		page = s.get("inbox", 200)
	}
	for _, one := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if at := html.UnescapeString(one[1]); strings.Contains(at, "visitors") {
			t.Errorf("the address %s has a token, which is a secret", at)
		}
	}
	has(t, page, `Visit \u001b[31m`, "at the door", "ada", run, "visitors/β")
	hasNot(t, page, "\x1b")
	has(t, s.get("inbox?workflow=nobody", 200), "No hook is open", "flowctl hooks --workflow nobody")
	at := regexp.MustCompile(`/flows/(inbox/resume\?run=[^"]+)"`).FindAllStringSubmatch(page, -1)
	var form string
	for _, one := range at {
		if text := s.get(html.UnescapeString(one[1]), 200); strings.Contains(text, "Visit") {
			form = html.UnescapeString(one[1])
			has(t, text, "flowctl hooks resume", "at the door")
		}
	}
	if form == "" {
		t.Fatalf("no hook can be answered\n%s", mainOf(page))
	}
	typed := hiddenOf(s.get(form, 200))
	typed.Set("payload", "no json")
	has(t, s.post(form, typed, 400), "what was typed is not JSON", ">no json<")
	typed.Set("payload", `{"name":"eve <b>"}`)
	has(t, s.post(form, typed, 200), "The message is durable")
	for !strings.Contains(page, "&#34;eve &lt;b&gt;&#34;") {
		if ctx.Err() != nil {
			t.Fatalf("the payload has not come\n%s", mainOf(page))
		}
		page = s.get("runs/"+run+"/talk", 200)
	}
	s.get("inbox/resume?run="+run+"&id=hook_none", 404)
	s.get("inbox/resume", 400)
	has(t, s.get("runs/"+run, 200), "Send to Visit")
}

// TestOPS2_TalkShowsWhatARunHasNotTaken proves that the page shows messages to a run without a
// worker before the run receives them.
func TestOPS2_TalkShowsWhatARunHasNotTaken(t *testing.T) {
	s := newSite(t, console.Config{})
	started, err := s.Direct.Start(t.Context(), admin.Start{Workflow: "nobody.serves", Input: admin.Payload(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	talk := "runs/" + started.Run + "/talk"
	hasNot(t, s.get(talk, 200), "Not taken yet")
	for i := range 22 {
		s.post("runs/"+started.Run+"/send", url.Values{"topic": {fmt.Sprintf("paid-%d <b>", i)}, "payload": {fmt.Sprintf(`"<i>%d"`, i)}, "key": {fmt.Sprint(i)}}, 200)
	}
	page := s.get(talk, 200)
	has(t, page, "Not taken yet", "paid-0 &lt;b&gt;", "&#34;&lt;i&gt;0&#34;", "paid-19", "message received", "And 2 more.")
	hasNot(t, page, "paid-20", "<i>0")
	run := s.Start("wait", "order-1")
	s.Until(run, "waiting")
	hasNot(t, s.get("runs/"+run+"/talk", 200), "Not taken yet")
}
