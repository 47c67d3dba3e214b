package main

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/approval"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// call sends a request and returns the status and the body of the response.
func call(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(limited(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var text bytes.Buffer
	if _, err := io.Copy(&text, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text.String()
}

// first returns the text that the first group of pattern matches in a page. It unescapes HTML.
func first(t *testing.T, page, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no %s:\n%s", pattern, page)
	}
	return html.UnescapeString(found[1])
}

// The test proves that a person can approve an expense with the form in the console. It also proves
// that a program can refuse another expense through the endpoint of hooks.
func TestApproval_APersonDecidesInTheConsoleAndAProgramByTheHook(t *testing.T) {
	ctx := limited(t)
	st := memstore.New()
	client := workflow.NewClient(st, quiet)
	asked, paid := make(chan string, 2), make(chan string, 2)
	w := worker.New(client, worker.Config{})
	approval.Register(w, &approval.Finance{
		Notify:   func(_ context.Context, _ approval.Expense, token string) error { asked <- token; return nil },
		Transfer: func(_ context.Context, e approval.Expense) error { paid <- e.ID; return nil },
	})
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	server := httptest.NewServer(approval.Handler(client))
	defer func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := errors.Join(<-worked, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	train, err := approval.Reimburse.Start(ctx, client, approval.Expense{ID: "train", By: "Ann", For: "a train", Cents: 4720})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	_, inbox := call(t, http.MethodGet, server.URL+"/inbox", "")
	if !strings.Contains(inbox, "Ann wants 47.20 for a train") {
		t.Fatalf("the inbox does not have the question:\n%s", inbox)
	}
	form := server.URL + first(t, inbox, `href="(/inbox/resume\?[^"]+)"`)
	_, page := call(t, http.MethodGet, form, "")
	filled := url.Values{
		"key":   {first(t, page, `name="key" value="([^"]*)"`)},
		"token": {first(t, page, `name="token" value="([^"]*)"`)},
	}
	filled.Set(first(t, page, `name="(in:/approved)"`), "true")
	if status, page := call(t, http.MethodPost, form, filled.Encode(), "Content-Type", "application/x-www-form-urlencoded"); status >= 400 {
		t.Fatalf("the form is answered with %d:\n%s", status, page)
	}
	if outcome, err := train.Result(ctx); outcome != "paid" || err != nil || <-paid != "train" {
		t.Errorf("the train is %q: %v", outcome, err)
	}

	yacht, err := approval.Reimburse.Start(ctx, client, approval.Expense{ID: "yacht", By: "Bob", For: "a yacht", Cents: 99_999_00})
	if err != nil {
		t.Fatal(err)
	}
	hook := server.URL + "/hooks/" + <-asked
	if status, _ := call(t, http.MethodPost, hook, `{"approved":"maybe"}`); status != http.StatusUnprocessableEntity {
		t.Errorf("a decision of another type is answered with %d", status)
	}
	if status, _ := call(t, http.MethodPost, hook, `{"approved":false,"note":"no water"}`, "Idempotency-Key", "1"); status != http.StatusAccepted {
		t.Errorf("the decision is answered with %d", status)
	}
	if outcome, err := yacht.Result(ctx); outcome != "refused: no water" || err != nil {
		t.Errorf("the yacht is %q: %v", outcome, err)
	}
	if len(paid) > 0 {
		t.Errorf("%s is paid", <-paid)
	}
}
