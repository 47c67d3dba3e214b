package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// site contains the dependencies of the steps, which are accounts, mail, and the address of the web
// server.
type site struct {
	base     string        // base URL of the links in mails
	patience time.Duration // time before a reminder is sent
	token    func() string
	post     func(m mail) // delivers a mail

	mu      sync.Mutex
	effects string // path of the file in which executions of steps are recorded; may be empty
}

type mail struct{ to, subject, link string }

func newSite(base, effects string, patience time.Duration, post func(mail)) *site {
	return &site{base: base, effects: effects, patience: patience, token: rand.Text, post: post}
}

// note records the execution of a step in the effects file.
func (s *site) note(ctx context.Context) {
	call, ok := step.Current(ctx)
	if s.effects == "" || !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s %d\n", call.Step, call.Key, call.Attempt)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(fmt.Sprintf("write effects: %v", err))
	}
}

// reserve returns the account for an address. It returns the same account for all attempts of the
// step.
func (s *site) reserve(ctx context.Context, email string) (string, error) {
	s.note(ctx)
	if !strings.Contains(email, "@") {
		return "", ErrBadAddress
	}
	return "account of " + email, nil
}

// mail sends a mail. The mail contains a link unless token is empty.
func (s *site) mail(ctx context.Context, to, subject, token string) error {
	s.note(ctx)
	m := mail{to: to, subject: subject}
	if call, ok := step.Current(ctx); ok && token != "" {
		m.link = s.base + "/verify?" + url.Values{"run": {string(call.RunID)}, "token": {token}}.Encode()
	}
	s.post(m)
	return nil
}

// serve handles clicks until the listener is closed.
func serve(l net.Listener, client *workflow.Client) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /verify", func(w http.ResponseWriter, r *http.Request) { verify(w, r, client) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	return server
}

// verify sends the click to the run. After a response with status 200, the click is durable even if
// this process crashes.
func verify(w http.ResponseWriter, r *http.Request, client *workflow.Client) {
	id, err := workflow.ParseRunID(r.FormValue("run"))
	if err != nil {
		http.Error(w, "this is no link of ours", http.StatusBadRequest)
		return
	}
	// The key identifies a repeated request of the browser as the same message.
	token := r.FormValue("token")
	err = Clicked.Send(r.Context(), client.Run(id), Click{token}, workflow.IdempotencyKey(token))
	switch {
	case errors.Is(err, workflow.ErrRunNotFound), errors.Is(err, workflow.ErrRunTerminal):
		http.Error(w, "this link is not valid any more", http.StatusGone)
	case err != nil:
		http.Error(w, "please try again", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, "thank you\n") // The click is durable even if the response is lost.
	}
}
