package jwtauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
)

// keys are those of an issuer, as it has answered last.
type keys struct {
	cfg  *Config
	algs []jose.SignatureAlgorithm

	mu      sync.Mutex
	known   jose.JSONWebKeySet
	got     time.Time // when they were answered
	asked   time.Time // when they were asked for last
	why     error     // why that has failed; nil: it has not
	pending *asking   // the request that has no answer yet, one for all who wait; nil: there is none
}

// asking is a request for the keys.
type asking struct {
	slow     <-chan struct{} // closed once it has taken so long that nobody waits for it who has keys
	answered chan struct{}   // closed once it is answered, or has failed
}

var _ oidc.KeySet = (*keys)(nil)

func newKeys(cfg *Config) *keys {
	k := &keys{cfg: cfg}
	for _, alg := range cfg.Algorithms {
		k.algs = append(k.algs, jose.SignatureAlgorithm(alg))
	}
	return k
}

// awayError says that it is not known whose a token is, for the keys cannot be had.
type awayError struct{ cause error }

func (e *awayError) Error() string { return "ask for the keys of the issuer: " + e.cause.Error() }
func (e *awayError) Unwrap() error { return e.cause }

// awayKey is where a context has an error that is set if the keys cannot be had: the verifier makes text of errors.
type awayKey struct{}

// withAway returns a context for one verification, and what tells why the keys could not be had; nil: that was not it.
func withAway(ctx context.Context) (context.Context, func() error) {
	var away error
	return context.WithValue(ctx, awayKey{}, &away), func() error { return away }
}

// away says why the keys cannot be had, and tells it whoever has made the context.
func away(ctx context.Context, cause error) error {
	err := &awayError{cause}
	if why, ok := ctx.Value(awayKey{}).(*error); ok {
		*why = err
	}
	return err
}

const (
	// askAgain is the least time between two requests for the keys: tokens of keys that nobody has cost the issuer no more.
	askAgain = 10 * time.Second
	// askTime bounds a request for the keys, whatever the client allows. An issuer may answer a byte at a time.
	askTime = 10 * time.Second
	// slowAfter is how long a request is waited for that is only to tell whether the keys are still good: an issuer that does not
	// answer holds nobody up for longer whose key is known.
	slowAfter = time.Second
	maxKeys   = 1 << 20 // bytes of an answer
)

// VerifySignature is part of oidc.KeySet.
func (k *keys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, k.algs)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("the token has more than one signature")
	}
	header := signed.Signatures[0].Header
	found, err := k.of(ctx, header.KeyID)
	if err != nil {
		return nil, away(ctx, err)
	}
	for _, key := range found {
		if !key.IsPublic() || key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(&key); err == nil {
			return payload, nil
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.why != nil && k.expired() {
		return nil, away(ctx, k.why)
	}
	return nil, errors.New("no key of the issuer has signed it")
}

// of returns the keys that may have signed a token that names its key so; empty: any may have. It waits for an answer of the issuer if
// there are none, and for a moment if those that there are should be asked for again.
func (k *keys) of(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	known := len(k.named(id)) > 0 && !k.expired()
	old := k.cfg.Now().Sub(k.got) >= k.cfg.Refresh
	if (old || !known) && k.pending == nil && k.mayAsk() {
		k.ask(ctx)
	}
	pending := k.pending
	k.mu.Unlock()
	if pending != nil && (old || !known) {
		slow := pending.slow
		if !known {
			slow = nil // which never comes
		}
		select {
		case <-pending.answered:
		case <-slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.expired() {
		return nil, nil
	}
	return k.named(id), nil
}

func (k *keys) named(id string) []jose.JSONWebKey {
	if id == "" {
		return k.known.Keys
	}
	return k.known.Key(id)
}

func (k *keys) mayAsk() bool {
	since := k.cfg.Now().Sub(k.asked)
	return k.asked.IsZero() || since >= askAgain || since < 0
}

// expired reports whether the keys are too old to be used. What was taken back by the issuer must not be good for ever.
func (k *keys) expired() bool { return k.got.IsZero() || k.cfg.Now().Sub(k.got) >= k.cfg.Keep }

// ask begins to ask for the keys. Those that there are stay if that fails. k.mu is held.
func (k *keys) ask(ctx context.Context) {
	asked := k.cfg.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime) // for all who wait
	slow, quick := context.WithTimeout(ctx, slowAfter)
	pending := &asking{slow: slow.Done(), answered: make(chan struct{})}
	k.asked, k.pending = asked, pending
	go func() {
		defer cancel()
		defer quick()
		known, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.why = err; err == nil {
			k.known, k.got = known, asked
		}
		k.pending = nil
		close(pending.answered)
	}()
}

func (k *keys) fetch(ctx context.Context) (known jose.JSONWebKeySet, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, k.cfg.JWKS, nil)
	if err != nil {
		return known, err
	}
	answer, err := k.cfg.Client.Do(r)
	if err != nil {
		return known, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return known, fmt.Errorf("get %s: %s", k.cfg.JWKS, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxKeys)).Decode(&known); err != nil {
		return known, fmt.Errorf("read %s: %w", k.cfg.JWKS, err)
	}
	if len(known.Keys) == 0 {
		return known, fmt.Errorf("read %s: there are no keys", k.cfg.JWKS)
	}
	return known, nil
}
