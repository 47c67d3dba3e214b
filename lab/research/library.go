package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// library is a typical web service. It is slow, some requests fail, and it allows only a limited
// number of concurrent requests.
type library struct {
	mu       sync.Mutex
	asked    map[string]int
	under    int // number of requests in progress
	refusals int // number of rejections because the rate of requests was too high
	crowds   int // number of rejections because there were too many concurrent requests
}

// atATime is the number of concurrent page requests that the library allows.
const atATime = 2

var pages = map[string]string{
	"encyclopedia": "The towel is about the most useful thing that a traveler can have. It is warm.",
	"newspaper":    "Towels were sold out on Thursday. Nobody knows why.",
	"diary":        "I have lost my towel. It was blue.",
}

func newLibrary() *library { return &library{asked: map[string]int{}} }

// ServeHTTP handles the paths /sources, /page and /review.
func (l *library) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	question := r.URL.Query().Get("q")
	if r.URL.Path == "/page" && !l.enter() {
		refuse(w, http.StatusTooManyRequests, "0.02")
		return
	}
	times := l.times(r.URL.Path + question)
	if r.URL.Path == "/page" {
		defer l.leave()
	}
	switch {
	case question == "newspaper" && times == 1: // The library is unavailable for the first request.
		refuse(w, http.StatusServiceUnavailable, "0.03")
	case question == "diary" && times <= 2: // The first two requests exceed the allowed rate.
		l.count(&l.refusals)
		refuse(w, http.StatusTooManyRequests, "0.05")
	case r.URL.Path == "/sources":
		answer(w, []string{"encyclopedia", "newspaper", "diary"})
	case r.URL.Path == "/review" && times == 1:
		http.Error(w, "the reviewer is asleep", http.StatusInternalServerError)
	case r.URL.Path == "/review":
		answer(w, "Well observed.")
	case pages[question] != "":
		answer(w, pages[question])
	default:
		http.NotFound(w, r)
	}
}

func refuse(w http.ResponseWriter, code int, after string) {
	w.Header().Set("Retry-After", after)
	http.Error(w, http.StatusText(code), code)
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// times counts a request for what and returns the number of these requests.
func (l *library) times(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[what]++
	return l.asked[what]
}

func (l *library) count(what *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what++
}

// enter admits a request unless too many are in progress. It reports whether the request was
// admitted.
func (l *library) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under == atATime {
		l.crowds++
		return false
	}
	l.under++
	return true
}

func (l *library) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under--
}

// refused returns the numbers of rejected requests, by rate and by concurrency.
func (l *library) refused() (often, tooMany int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals, l.crowds
}
