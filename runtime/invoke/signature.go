package invoke

import (
	"container/heap"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Headers of a request.
const (
	HeaderTime      = "Flowgen-Time"
	HeaderNonce     = "Flowgen-Nonce"
	HeaderSignature = "Flowgen-Signature"
)

const (
	// window is how much the time of a request may differ from the time of the function.
	window = 5 * time.Minute
	// seenMost bounds how many requests a process remembers.
	seenMost = 1 << 16

	version = "v1="
)

// Sign sets the headers of a request with the given run and body. The run is empty for a request that
// announces the function.
func Sign(h http.Header, secret []byte, now time.Time, run string, body []byte) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	t, n := strconv.FormatInt(now.UnixMilli(), 10), hex.EncodeToString(nonce[:])
	h.Set(HeaderTime, t)
	h.Set(HeaderNonce, n)
	h.Set(HeaderSignature, version+hex.EncodeToString(sum(secret, t, n, run, body)))
}

// sum returns the HMAC of a request. The length before each part keeps one part from continuing in
// the next.
func sum(secret []byte, at, nonce, run string, body []byte) []byte {
	m := hmac.New(sha256.New, secret)
	for _, part := range []string{at, nonce, run, string(body)} {
		_, _ = fmt.Fprintf(m, "%d:", len(part))
		_, _ = io.WriteString(m, part)
	}
	return m.Sum(nil)
}

// checkTime returns the time of a request. It refuses one outside of the window.
func checkTime(h http.Header, now time.Time) (time.Time, *Error) {
	ms, err := strconv.ParseInt(h.Get(HeaderTime), 10, 64)
	if err != nil {
		return time.Time{}, &Error{Code: CodeSignature, Message: "the header " + HeaderTime + " is not a number of milliseconds", Fix: "sign requests with invoke.Sign"}
	}
	at := time.UnixMilli(ms)
	if d := now.Sub(at); d > window || d < -window {
		return at, &Error{Code: CodeExpired, Message: fmt.Sprintf("the time of the request differs by %v from that of the function", d.Round(time.Second)),
			Fix: fmt.Sprintf("synchronize the clocks: they may differ by %v", window)}
	}
	if n := len(h.Get(HeaderNonce)); n < 16 || n > 64 {
		return at, &Error{Code: CodeSignature, Message: "the header " + HeaderNonce + " must have 16 to 64 characters", Fix: "sign requests with invoke.Sign"}
	}
	return at, nil
}

// checkSignature verifies the signature of a request. The comparison takes constant time.
func checkSignature(h http.Header, secrets [][]byte, run string, body []byte) *Error {
	text, ok := strings.CutPrefix(h.Get(HeaderSignature), version)
	given, err := hex.DecodeString(text)
	if ok && err == nil {
		for _, s := range secrets {
			if hmac.Equal(given, sum(s, h.Get(HeaderTime), h.Get(HeaderNonce), run, body)) {
				return nil
			}
		}
	}
	return &Error{Code: CodeSignature, Message: "the signature is not valid", Fix: "use the same secret in the dispatcher and in the function"}
}

// seen remembers the nonces of requests. It forgets the oldest request if that is outside of the
// window, or if it is full. From then on it refuses all requests that are not newer than the forgotten
// one. So no request is accepted twice by a process.
type seen struct {
	mu     sync.Mutex
	most   int
	nonces map[string]bool
	order  byTime
	before time.Time // requests at or before this time are refused
}

func newSeen(most int) *seen { return &seen{most: most, nonces: map[string]bool{}} }

// add reports whether a request is new. at is its time.
func (s *seen) add(nonce string, at, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// checkTime refuses requests outside of the window. But the body of this request may have arrived
	// after that check, and a later request may already have been added.
	for len(s.order) > 0 && now.Sub(s.order[0].at) > window {
		s.forget()
	}
	if s.nonces[nonce] || !at.After(s.before) {
		return false
	}
	if len(s.order) >= s.most {
		if s.forget(); !at.After(s.before) {
			return false
		}
	}
	s.nonces[nonce] = true
	heap.Push(&s.order, request{nonce, at})
	return true
}

// forget removes the oldest request.
func (s *seen) forget() {
	oldest := heap.Pop(&s.order).(request)
	delete(s.nonces, oldest.nonce)
	s.before = oldest.at
}

type request struct {
	nonce string
	at    time.Time
}

// byTime is a heap of requests, oldest first.
type byTime []request

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].at.Before(b[j].at) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byTime) Push(v any)        { *b = append(*b, v.(request)) }
func (b *byTime) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
