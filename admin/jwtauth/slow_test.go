package jwtauth_test

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/jwtauth"
)

// slowIssuer responds to requests for its keys with configurable data and delays, in the fake time
// of a bubble.
type slowIssuer struct {
	issuer

	asked  int
	answer func(ctx context.Context, keys []byte) (io.ReadCloser, error)
}

// RoundTrip responds with the keys as the test has configured.
func (s *slowIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked++
	answer := s.answer
	keys, err := json.Marshal(s.keys)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	body, err := answer(r.Context(), keys)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

// atOnce responds without delay.
func atOnce(_ context.Context, keys []byte) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(keys))), nil
}

// never does not respond before the request is canceled.
func never(ctx context.Context, _ []byte) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// trickle is a body that returns one byte per second.
type trickle struct {
	ctx  context.Context
	left []byte
}

func byteByByte(ctx context.Context, keys []byte) (io.ReadCloser, error) {
	return &trickle{ctx, keys}, nil
}

func (b *trickle) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	n := copy(p[:1], b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *trickle) Close() error { return nil }

// outcome is the result and the duration of an authentication.
type outcome struct {
	err  error
	took time.Duration
}

// TestOPS3_ASlowIssuerHoldsUpNobodyWhoseKeyIsKnown proves that an issuer that responds slowly or
// not at all does not delay callers with a known key. Otherwise tokens with invented keys would
// lock out all other callers. A caller with an unknown key gets a result within ten seconds. No
// goroutine remains, because the bubble waits for all of them.
func TestOPS3_ASlowIssuerHoldsUpNobodyWhoseKeyIsKnown(t *testing.T) {
	for name, slow := range map[string]func(context.Context, []byte) (io.ReadCloser, error){"never": never, "a byte at a time": byteByByte} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { slowIssuerTest(t, slow) })
		})
	}
}

// newSlowIssuer returns an issuer with one key. It also returns a function that signs a token with
// a key and authenticates with the token.
func newSlowIssuer(t *testing.T) (*slowIssuer, func(ctx context.Context, key *rsa.PrivateKey, id string) outcome) {
	s := &slowIssuer{issuer: issuer{T: t}, answer: atOnce}
	auth, err := jwtauth.New(jwtauth.Config{
		Issuer: "https://issuer.example.com", Audience: "flowgen", JWKS: "https://issuer.example.com/jwks", Client: &http.Client{Transport: s}, // the client has no time limit
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, func(ctx context.Context, key *rsa.PrivateKey, id string) outcome {
		s.change(func() { s.now = time.Now() })
		begun := time.Now()
		_, err := auth.Authenticate(ctx, s.sign(jose.RS256, key, id, s.claims(nil)))
		return outcome{err, time.Since(begun)}
	}
}

func slowIssuerTest(t *testing.T, slow func(context.Context, []byte) (io.ReadCloser, error)) {
	s, asks := newSlowIssuer(t)
	key, stranger := s.rsaKey(), s.rsaKey()
	s.publish("known", key.Public())
	ask := func(ctx context.Context, id string) outcome {
		if id == "known" {
			return asks(ctx, key, id)
		}
		return asks(ctx, stranger, id)
	}
	if got := ask(t.Context(), "known"); got.err != nil {
		t.Fatalf("before: %v", got.err)
	}
	s.change(func() { s.answer = slow })
	time.Sleep(11 * time.Second)

	// Several tokens with invented keys cause only one request in total.
	var strangers sync.WaitGroup
	got := make([]outcome, 50)
	for n := range got {
		strangers.Go(func() { got[n] = ask(t.Context(), fmt.Sprint("unknown-", n)) })
	}
	gone, leave := context.WithCancel(t.Context())
	var left outcome
	strangers.Go(func() { left = ask(gone, "unknown") })
	synctest.Wait()
	leave()
	for range 20 {
		if known := ask(t.Context(), "known"); known.err != nil || known.took > 0 {
			t.Errorf("a known key, while the issuer is asked: %v after %v, want success at once", known.err, known.took)
		}
	}
	strangers.Wait()
	for _, one := range slices.Concat(got, []outcome{left}) {
		if one.err == nil || one.took > 10*time.Second {
			t.Errorf("an unknown key: %v after %v, want an error in 10s", one.err, one.took)
		}
	}
	if refused := admin.ProblemOf(got[0].err); refused.Status != http.StatusUnauthorized {
		t.Errorf("an unknown key, with keys that are good: %v, want 401", refused)
	}
	if !errors.Is(left.err, context.Canceled) || left.took > 0 {
		t.Errorf("one that has gone: %v after %v", left.err, left.took)
	}
	if s.asked != 2 {
		t.Errorf("the issuer was asked %d times, want once for all strangers, and once before", s.asked)
	}

	// A refresh that is due delays concurrent callers by at most one second, and later callers not
	// at all. The old keys remain valid for an hour.
	time.Sleep(10 * time.Minute)
	var known sync.WaitGroup
	for n := range got {
		known.Go(func() { got[n] = ask(t.Context(), "known") })
	}
	known.Wait()
	after := ask(t.Context(), "known")
	for _, one := range slices.Concat(got, []outcome{after}) {
		if one.err != nil || one.took > time.Second {
			t.Errorf("a known key that should be asked for again: %v after %v, want success in 1s", one.err, one.took)
		}
	}
	if after.took > 0 {
		t.Errorf("the next one has waited for %v, want none", after.took)
	}
	time.Sleep(time.Hour)
	if old := ask(t.Context(), "known"); old.err == nil || admin.ProblemOf(old.err).Status < 500 || old.took > 10*time.Second {
		t.Errorf("after an hour: %v after %v, want that the issuer is away, in 10s", old.err, old.took)
	}

	s.change(func() { s.answer = atOnce })
	time.Sleep(11 * time.Second)
	if back := ask(t.Context(), "known"); back.err != nil || back.took > 0 {
		t.Errorf("once it answers again: %v after %v", back.err, back.took)
	}
}

// TestOPS3_ANewKeyIsAcceptedOnceASlowIssuerHasAnswered proves that all callers with tokens of a new
// key share one request, and that the request continues after the first of these callers has left.
func TestOPS3_ANewKeyIsAcceptedOnceASlowIssuerHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ask := newSlowIssuer(t)
		key := s.rsaKey()
		s.publish("new", key.Public())
		s.answer = func(ctx context.Context, keys []byte) (io.ReadCloser, error) {
			select {
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return atOnce(ctx, keys)
		}
		gone, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { ask(gone, key, "new") })
		synctest.Wait()
		got := make([]outcome, 20)
		for n := range got {
			all.Go(func() { got[n] = ask(t.Context(), key, "new") })
		}
		synctest.Wait()
		leave()
		all.Wait()
		for _, one := range got {
			if one.err != nil || one.took != 3*time.Second {
				t.Errorf("got %v after %v, want success after 3s", one.err, one.took)
			}
		}
		if s.asked != 1 {
			t.Errorf("the issuer was asked %d times, want once", s.asked)
		}
	})
}
