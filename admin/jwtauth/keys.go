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

// keys contains the keys of an issuer from its last successful response.
type keys struct {
	cfg  *Config
	algs []jose.SignatureAlgorithm

	mu      sync.Mutex
	known   jose.JSONWebKeySet
	got     time.Time // time of that response
	asked   time.Time // time of the last request
	why     error     // error of the last request
	pending *asking   // the request in progress, for which several callers may wait; nil if there is none
}

// asking is a request for the keys.
type asking struct {
	slow     <-chan struct{} // closed after slowAfter; after that, only callers without a known key continue to wait
	answered chan struct{}   // closed after the response or a failure
}

var _ oidc.KeySet = (*keys)(nil)

func newKeys(cfg *Config) *keys {
	k := &keys{cfg: cfg}
	for _, alg := range cfg.Algorithms {
		k.algs = append(k.algs, jose.SignatureAlgorithm(alg))
	}
	return k
}

// awayError reports that a token could not be checked because the keys are unavailable.
type awayError struct{ cause error }

func (e *awayError) Error() string { return "read the keys of the issuer: " + e.cause.Error() }
func (e *awayError) Unwrap() error { return e.cause }

// awayKey is the context key of a variable for the error if the keys are unavailable. The error
// cannot be returned, because the verifier converts errors to text.
type awayKey struct{}

// withAway returns a context for one verification, and a function that reports its result. The
// function returns the error if the keys were unavailable, and otherwise nil.
func withAway(ctx context.Context) (context.Context, func() error) {
	var away error
	return context.WithValue(ctx, awayKey{}, &away), func() error { return away }
}

// away returns the error for unavailable keys, and stores it in the variable in the context.
func away(ctx context.Context, cause error) error {
	err := &awayError{cause}
	if why, ok := ctx.Value(awayKey{}).(*error); ok {
		*why = err
	}
	return err
}

const (
	// askAgain is the minimum interval between two requests for the keys. It protects the issuer
	// from load that tokens with invented keys would cause.
	askAgain = 10 * time.Second
	// askTime is the time limit of a request for the keys, whatever limits the client has. Without
	// this limit, an issuer that responds byte by byte would delay callers indefinitely.
	askTime = 10 * time.Second
	// slowAfter is the maximum time for which callers with a known key wait for a refresh of the
	// keys. An issuer that does not respond does not delay them longer.
	slowAfter = time.Second
	maxKeys   = 1 << 20 // maximum size of a response in bytes
)

// VerifySignature implements oidc.KeySet.
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

// of returns the keys that may have signed a token with a key ID. An empty ID means all keys. If
// there is no such key, it waits for a response of the issuer. If a refresh is due, it waits at
// most slowAfter.
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
			slow = nil // never receives, so that only a response ends the wait
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

// expired reports whether the keys are too old to be used. The limit ensures that revoked keys do
// not remain valid.
func (k *keys) expired() bool { return k.got.IsZero() || k.cfg.Now().Sub(k.got) >= k.cfg.Keep }

// ask starts a request for the keys. If the request fails, the present keys remain. The caller must
// hold k.mu.
func (k *keys) ask(ctx context.Context) {
	asked := k.cfg.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime) // not derived from the context of the caller, because other callers wait for the same request
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
