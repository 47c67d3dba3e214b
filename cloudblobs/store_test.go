package cloudblobs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

// calls contains the calls of a store.
var calls = map[string]func(context.Context, *Store) error{
	"put": func(ctx context.Context, s *Store) error { return s.Put(ctx, numbered(1), []byte("data")) },
	"get": func(ctx context.Context, s *Store) error {
		_, err := s.Get(ctx, numbered(1))
		return err
	},
	"delete": func(ctx context.Context, s *Store) error { return s.Delete(ctx, numbered(1)) },
	"list": func(ctx context.Context, s *Store) error {
		_, err := s.List(ctx, "chain/", "", 10)
		return err
	},
}

func TestOPS11_ABucketInMemoryKeepsTheContractOfBlobStores(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { _ = bucket.Close() })
	codectest.Conformance(t, func(*testing.T) codec.BlobStore { return New(bucket) })
}

func TestOPS11_ABucketWithAPrefixKeepsTheContractOfBlobStores(t *testing.T) {
	bucket := blob.PrefixedBucket(memblob.OpenBucket(nil), "flowgen/")
	t.Cleanup(func() { _ = bucket.Close() })
	codectest.Conformance(t, func(*testing.T) codec.BlobStore { return New(bucket) })
}

func TestOPS11_ErrorsOfTheServiceHaveAReasonAndLastingOnesAreNotRetried(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		want     Reason
		attempts int64
	}{
		{403, "AccessDenied", Denied, 1},
		{403, "InvalidAccessKeyId", Denied, 1},
		{403, "SignatureDoesNotMatch", Denied, 1},
		{401, "Unauthorized", Denied, 1},
		{403, "QuotaExceeded", Full, 1},
		{507, "XMinioStorageFull", Full, 1},
		{400, "InvalidRequest", Rejected, 1},
		{301, "PermanentRedirect", Rejected, 1},
		{500, "InternalError", Unavailable, 3},
		{503, "SlowDown", Unavailable, 3},
		{429, "TooManyRequests", Unavailable, 3},
		{400, "RequestTimeout", Unavailable, 3},
	} {
		for name, call := range calls {
			if name == "delete" && (c.code == "QuotaExceeded" || c.code == "RequestTimeout") {
				continue // it begins with a HEAD request, whose answer has no code
			}
			s := serve(t, func(w http.ResponseWriter, r *http.Request) { fail(w, r, c.status, c.code) })
			err := call(t.Context(), s.open(t))
			var failure *Error
			if !errors.As(err, &failure) || failure.Op != name || failure.Reason != c.want || !strings.Contains(err.Error(), string(c.want)) {
				t.Errorf("%s answered with %d %s returns %v, want reason %q", name, c.status, c.code, err, c.want)
			}
			if got := s.requests.Load(); got != c.attempts {
				t.Errorf("%s answered with %d %s sends %d requests, want %d", name, c.status, c.code, got, c.attempts)
			}
		}
	}
}

func TestOPS11_AMissingBucketIsNotAMissingBlob(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fail(w, r, 404, "NoSuchBucket") })
	for name, call := range calls {
		var failure *Error
		if err := call(t.Context(), s.open(t)); !errors.As(err, &failure) || failure.Reason != NoBucket || errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("%s in a missing bucket returns %v, want reason %q", name, err, NoBucket)
		}
	}
}

func TestOPS11_AMissingBlobIsFoundMissingWithoutThePermissionToList(t *testing.T) {
	for _, status := range []int{200, 403} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !isList(r):
				fail(w, r, 404, "NoSuchKey")
			case status == 200:
				list(w)
			default:
				fail(w, r, status, "AccessDenied")
			}
		})
		if err := calls["get"](t.Context(), s.open(t)); !errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("Get of a missing blob returns %v with status %d of a list, want ErrBlobNotFound", err, status)
		}
		if err := calls["delete"](t.Context(), s.open(t)); err != nil {
			t.Errorf("Delete of a missing blob returns %v with status %d of a list", err, status)
		}
	}
}

func TestOPS11_AFailureThatPassesIsRetried(t *testing.T) {
	for name, call := range calls {
		var n int
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch n++; {
			case n <= 2:
				fail(w, r, 503, "ServiceUnavailable")
			case isList(r):
				list(w, numbered(1))
			}
		})
		if err := call(t.Context(), s.open(t)); err != nil {
			t.Errorf("%s fails after two attempts that failed: %v", name, err)
		}
	}
}

func TestOPS11_AServiceThatDoesNotAnswerIsSlowAfterThreeAttempts(t *testing.T) {
	for name, call := range calls {
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		store := s.open(t)
		store.limits.patience = 50 * time.Millisecond
		var failure *Error
		if err := call(t.Context(), store); !errors.As(err, &failure) || failure.Reason != Slow {
			t.Errorf("%s without an answer returns %v, want reason %q", name, err, Slow)
		}
		if got := s.requests.Load(); got > 3 {
			t.Errorf("%s sends %d requests, want 3 at most", name, got)
		}
	}
}

func TestOPS11_ABodyThatStopsIsSlow(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 500))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	store := s.open(t)
	store.limits.patience, store.limits.rate = 50*time.Millisecond, 100_000
	data, err := store.Get(t.Context(), numbered(1))
	if failure := (*Error)(nil); !errors.As(err, &failure) || failure.Reason != Slow || data != nil {
		t.Errorf("Get returns %d bytes and %v, want reason %q", len(data), err, Slow)
	}
}

func TestOPS11_APayloadHasTheTimeThatItsBytesNeed(t *testing.T) {
	t.Parallel()
	l := limits{patience: 30 * time.Second, rate: 256 << 10}
	if got, want := l.duration(256<<20), 30*time.Second+1024*time.Second; got != want {
		t.Errorf("an attempt with 256 MiB has %v, want %v", got, want)
	}
	// The answer takes longer than patience, which the size of the answer extends.
	const patience = 3 * time.Second
	body := make([]byte, 1000)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(patience + 200*time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = w.Write(body)
	})
	store := s.open(t)
	store.limits = limits{attempts: 1, patience: patience, rate: 10}
	if got, err := store.Get(t.Context(), numbered(1)); err != nil || !bytes.Equal(got, body) {
		t.Errorf("Get returns %d bytes and %v, want %d bytes", len(got), err, len(body))
	}
}

func TestOPS11_GetReturnsNoPartOfABlob(t *testing.T) {
	for _, cuts := range []int{1, 3} {
		body, n := bytes.Repeat([]byte("data"), 100_000), 0
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "400000")
			if n++; n > cuts {
				_, _ = w.Write(body)
				return
			}
			_, _ = w.Write(body[:250_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		got, err := s.open(t).Get(t.Context(), numbered(1))
		if cuts == 1 && (err != nil || !bytes.Equal(got, body)) {
			t.Errorf("Get returns %d bytes and %v after an answer that was cut, want %d bytes", len(got), err, len(body))
		}
		if failure := (*Error)(nil); cuts == 3 && (got != nil || !errors.As(err, &failure) || failure.Reason != Unavailable) {
			t.Errorf("Get returns %d bytes and %v if all answers are cut, want reason %q", len(got), err, Unavailable)
		}
	}
}

func TestOPS11_ACallEndsWithTheContextOfItsCaller(t *testing.T) {
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		})
		var failure *Error
		if err := call(ctx, s.open(t)); !errors.Is(err, context.Canceled) || errors.As(err, &failure) {
			t.Errorf("%s returns %v after its context has ended, want context.Canceled", name, err)
		}
		if got := s.requests.Load(); got != 1 {
			t.Errorf("%s sends %d requests, want 1", name, got)
		}
	}
}

func TestOPS11_DeleteStopsAtTheFirstFailure(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fail(w, r, 403, "AccessDenied") })
	var names []string
	for n := range 1000 {
		names = append(names, numbered(n))
	}
	var failure *Error
	if err := s.open(t).Delete(t.Context(), names...); !errors.As(err, &failure) || failure.Reason != Denied {
		t.Errorf("Delete returns %v, want reason %q", err, Denied)
	}
	if got := s.requests.Load(); got > 2*deletes {
		t.Errorf("Delete sends %d requests after the first failure", got)
	}
}
