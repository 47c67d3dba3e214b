package codec_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/codec"
)

const console = "https://console.example.com"

func newHandler(t testing.TB, c *codec.Codec, change func(*codec.HandlerConfig)) *codec.Handler {
	t.Helper()
	cfg := codec.HandlerConfig{Authorize: codec.BearerToken("secret"), Origins: []string{console}}
	if change != nil {
		change(&cfg)
	}
	h, err := codec.NewHandler(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// request returns an authorized request of the console.
func request(body string) *http.Request {
	r := httptest.NewRequest("POST", "http://codec.example.com/open", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", console)
	r.Header.Set("Sec-Fetch-Site", "same-site")
	return r
}

type result struct {
	Value  json.RawMessage `json:"value"`
	Base64 []byte          `json:"base64"`
	Error  string          `json:"error"`
	Code   string          `json:"code"`
}

// open sends a request, and returns the status, the results, and the code of an error.
func open(t testing.TB, h http.Handler, r *http.Request) (status int, results []result, code string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var reply struct {
		Payloads    []result `json:"payloads"`
		Error, Code string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, w.Body, err)
	}
	if (w.Code == 200) != (reply.Code == "") || (reply.Code == "") != (reply.Error == "") {
		t.Errorf("status %d with code %q and error %q", w.Code, reply.Code, reply.Error)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Vary": "Origin"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	return w.Code, reply.Payloads, reply.Code
}

// body returns the body of a request to open stored forms at place.
func body(stored ...[]byte) string {
	var b strings.Builder
	for i, data := range stored {
		fmt.Fprintf(&b, `%s{"owner":%q,"field":%q,"blobs":%q,"data":%q}`, strings.Repeat(",", min(i, 1)), place.Owner, place.Field, chain, base64.StdEncoding.EncodeToString(data))
	}
	return `{"payloads":[` + b.String() + `]}`
}

func TestOPS5_TheHandlerOpensPayloadsForBrowsers(t *testing.T) {
	store := &blobs{}
	keys := codec.Keys(key("k1", 1))
	c := newCodec(t, codec.Config{Keys: keys, Blobs: store})
	h := newHandler(t, c, nil)
	large := text(1 << 20)
	other := newCodec(t, codec.Config{Keys: codec.Keys(key("k2", 2))})
	offloading := newCodec(t, codec.Config{Keys: keys, Blobs: store, OffloadAbove: 1})
	lost := newCodec(t, codec.Config{Keys: keys, Blobs: &blobs{}, OffloadAbove: 1})
	elsewhere := codec.Place{Owner: place.Owner, Field: "other"}
	newer := seal(t, c, place, []byte("1"))
	newer[1] |= 0x80
	status, got, _ := open(t, h, request(body(
		seal(t, c, place, []byte(`{"n":12345678901234567890}`)), seal(t, c, place, large), seal(t, offloading, place, []byte("17")),
		[]byte(`"not sealed"`), seal(t, c, place, []byte("boom: <b>")), seal(t, c, place, []byte("\xff\x00")), nil,
		seal(t, other, place, []byte("1")), seal(t, c, elsewhere, []byte("1")), newer, seal(t, lost, place, []byte("18")),
	)))
	want := []result{
		{Value: json.RawMessage(`{"n":12345678901234567890}`)}, {Value: large}, {Value: json.RawMessage("17")},
		{Value: json.RawMessage(`"not sealed"`)}, {Value: json.RawMessage(`"boom: \u003cb\u003e"`)}, {Base64: []byte("\xff\x00")}, {Value: json.RawMessage(`""`)},
		{Code: "key"}, {Code: "damaged"}, {Code: "version"}, {Code: "blob"},
	}
	for i := range got {
		if (got[i].Error == "") != (got[i].Code == "") {
			t.Errorf("payload %d has the error %q and code %q", i, got[i].Error, got[i].Code)
		}
		got[i].Error = ""
	}
	if diff := cmp.Diff(want, got); diff != "" || status != 200 {
		t.Errorf("status %d (-want +got):\n%s", status, diff)
	}
	if status, got, _ := open(t, h, request(`{"payloads":[]}`)); status != 200 || len(got) != 0 {
		t.Errorf("no payloads: status %d, %v", status, got)
	}
}

func TestOPS5_TheHandlerRefusesClientsWithoutCredentials(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	sealed := body(seal(t, c, place, []byte(`"plain"`)))
	h := newHandler(t, c, nil)
	for _, header := range []string{"", "secret", "Bearer", "Bearer ", "Bearer wrong", "Bearer secret2", "Bearer secre", "Basic secret", "Bearer  secret", "Bearersecret"} {
		r := request(sealed)
		r.Header.Set("Authorization", header)
		read := &counted{Reader: strings.NewReader(sealed)}
		r.Body = io.NopCloser(read)
		if status, got, code := open(t, h, r); status != 401 || code != "unauthorized" || got != nil || read.n > 0 {
			t.Errorf("%q: status %d, code %s, %v after %d bytes of the body; want 401", header, status, code, got, read.n)
		}
	}
	denied := newHandler(t, c, func(cfg *codec.HandlerConfig) {
		cfg.Authorize = func(*http.Request) error { return errors.New("password hunter2 is wrong") }
	})
	w := httptest.NewRecorder()
	denied.ServeHTTP(w, request(sealed))
	if w.Code != 401 || strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("a callback that refuses: %d, %s; want 401 without its error", w.Code, w.Body)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestOPS5_TheHandlerRefusesPagesOfOtherOrigins(t *testing.T) {
	c := newCodec(t, codec.Config{})
	h := newHandler(t, c, nil)
	for name, tt := range map[string]struct {
		origin, site string
		status       int
		allowed      bool
	}{
		"listed":           {console, "cross-site", 200, true},
		"same origin":      {"http://codec.example.com", "same-origin", 200, false},
		"no browser":       {"", "", 200, false},
		"other":            {"https://evil.example.com", "cross-site", 403, false},
		"other, old":       {"https://evil.example.com", "", 403, false},
		"null":             {"null", "cross-site", 403, false},
		"no origin":        {"", "cross-site", 403, false},
		"HTTP":             {"http://console.example.com", "cross-site", 403, false},
		"port":             {console + ":8443", "cross-site", 403, false},
		"longer":           {console + ".evil.com", "cross-site", 403, false},
		"upper case":       {"https://CONSOLE.example.com", "cross-site", 403, false},
		"sibling":          {"https://other.example.com", "same-site", 403, false},
		"wildcard":         {"*", "cross-site", 403, false},
		"several":          {console + " https://evil.example.com", "cross-site", 403, false},
		"with a path":      {console + "/", "cross-site", 403, false},
		"lies about site":  {"https://evil.example.com", "cross-origin", 403, false},
		"rebound, old":     {"http://evil.example.com", "", 403, false},
		"listed and old":   {console, "", 200, true},
		"user information": {"https://x@console.example.com", "cross-site", 403, false},
	} {
		r := request(body([]byte("1")))
		r.Header.Set("Origin", tt.origin)
		r.Header.Set("Sec-Fetch-Site", tt.site)
		for _, name := range []string{"Origin", "Sec-Fetch-Site"} {
			if r.Header.Get(name) == "" {
				r.Header.Del(name)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		allow := w.Header().Get("Access-Control-Allow-Origin")
		if w.Code != tt.status || (allow == tt.origin) != tt.allowed && tt.origin != "" || allow != "" && !tt.allowed || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: status %d and Allow-Origin %q, want %d and %v", name, w.Code, allow, tt.status, tt.allowed)
		}
		preflight := httptest.NewRequest("OPTIONS", "http://codec.example.com/open", nil)
		preflight.Header.Set("Origin", tt.origin)
		w = httptest.NewRecorder()
		h.ServeHTTP(w, preflight)
		if got := w.Header().Get("Access-Control-Allow-Headers"); (w.Code == 204) != tt.allowed || (got == "Authorization, Content-Type") != tt.allowed || w.Body.Len() > 0 && tt.allowed || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: preflight has status %d and Allow-Headers %q", name, w.Code, got)
		}
	}
}

func TestOPS5_TheHandlerRefusesInvalidRequests(t *testing.T) {
	c := newCodec(t, codec.Config{})
	h := newHandler(t, c, func(cfg *codec.HandlerConfig) { cfg.MaxPayloads, cfg.MaxBytes = 3, 10_000 })
	for name, tt := range map[string]struct {
		change func(*http.Request)
		body   string
		status int
		code   string
	}{
		"empty":               {nil, "", 400, "input"},
		"null":                {nil, "null", 200, ""},
		"text":                {nil, "hello", 400, "input"},
		"array":               {nil, "[]", 400, "input"},
		"object as payloads":  {nil, `{"payloads":{}}`, 400, "input"},
		"number as payload":   {nil, `{"payloads":[1]}`, 400, "input"},
		"unknown field":       {nil, `{"payloads":[],"key":"k1"}`, 400, "input"},
		"unknown field in it": {nil, `{"payloads":[{"key":"k1"}]}`, 400, "input"},
		"not base64":          {nil, `{"payloads":[{"data":"!"}]}`, 400, "input"},
		"truncated":           {nil, body([]byte("1"))[:40], 400, "input"},
		"two documents":       {nil, body([]byte("1")) + "{}", 400, "input"},
		"most payloads":       {nil, body([]byte("1"), []byte("2"), []byte("3")), 200, ""},
		"too many payloads":   {nil, body([]byte("1"), []byte("2"), []byte("3"), []byte("4")), 413, "too_large"},
		"very many payloads":  {nil, `{"payloads":[` + strings.Repeat("{},", 2000) + `{}]}`, 413, "too_large"},
		"large body":          {nil, body(noise(9000)), 413, "too_large"},
		"deep":                {nil, `{"payloads":` + strings.Repeat("[", 9000), 400, "input"},
		"form":                {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, body([]byte("1")), 415, "content_type"},
		"no type":             {func(r *http.Request) { r.Header.Del("Content-Type") }, body([]byte("1")), 415, "content_type"},
		"charset":             {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, body([]byte("1")), 200, ""},
		"GET":                 {func(r *http.Request) { r.Method = "GET" }, "", 405, "method"},
		"DELETE":              {func(r *http.Request) { r.Method = "DELETE" }, "", 405, "method"},
		"other path":          {func(r *http.Request) { r.URL.Path = "/open/x" }, body([]byte("1")), 404, "not_found"},
		"failing body":        {func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})) }, "", 400, "input"},
	} {
		r := request(tt.body)
		if tt.change != nil {
			tt.change(r)
		}
		if status, got, code := open(t, h, r); status != tt.status || code != tt.code {
			t.Errorf("%s: status %d, code %q, %v; want %d, %q", name, status, code, got, tt.status, tt.code)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestOPS5_TheHandlerBoundsWhatItOpens(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	h := newHandler(t, c, func(cfg *codec.HandlerConfig) { cfg.MaxBytes = 100_000 })
	large := seal(t, c, place, text(60_000)) // less than 300 bytes
	status, got, _ := open(t, h, request(body(large, large, seal(t, c, place, []byte("17")), seal(t, c, place, text(100_001)))))
	if status != 200 || len(got) != 4 || len(got[0].Value) != 60_000 || got[1].Code != "size" || string(got[2].Value) != "17" || got[3].Code != "size" {
		t.Errorf("status %d, %.300v", status, got)
	}
}

func TestOPS5_TheHandlerRefusesPrefixesThatAreNone(t *testing.T) {
	store := &blobs{}
	c := newCodec(t, codec.Config{Blobs: store, OffloadAbove: 1})
	stored := base64.StdEncoding.EncodeToString(seal(t, c, place, noise(100)))
	h := newHandler(t, c, nil)
	for _, prefix := range []string{"..", "../" + chain, chain + "/..", "/", ".unfinished", "a b", strings.Repeat("a", 65)} {
		_, got, _ := open(t, h, request(fmt.Sprintf(`{"payloads":[{"owner":%q,"field":%q,"blobs":%q,"data":%q}]}`, place.Owner, place.Field, prefix, stored)))
		if len(got) != 1 || got[0].Code != "input" {
			t.Errorf("prefix %q: %+v, want the code input", prefix, got)
		}
	}
}

// stuck is a key provider that waits for the end of the context.
type stuck struct{ failing }

func (stuck) Key(ctx context.Context, _ string) (codec.Key, error) {
	<-ctx.Done()
	return codec.Key{}, ctx.Err()
}

func TestOPS5_TheHandlerEndsRequestsThatTakeTooLong(t *testing.T) {
	stored := seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, []byte("1"))
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{1, 5} {
			h := newHandler(t, newCodec(t, codec.Config{Keys: stuck{}}), func(cfg *codec.HandlerConfig) { cfg.Timeout = 3 * time.Second })
			began := time.Now()
			status, _, code := open(t, h, request(body(bytesOf(stored, n)...)))
			if status != 503 || code != "timeout" || time.Since(began) != 3*time.Second {
				t.Errorf("%d payloads: status %d, code %s after %v, want 503 after 3s", n, status, code, time.Since(began))
			}
		}
	})
}

func bytesOf(b []byte, n int) (all [][]byte) {
	for range n {
		all = append(all, b)
	}
	return all
}

// TestOPS5_TheHandlerEndsSlowBodies sends a request whose body never ends.
func TestOPS5_TheHandlerEndsSlowBodies(t *testing.T) {
	h := newHandler(t, newCodec(t, codec.Config{}), func(cfg *codec.HandlerConfig) { cfg.Timeout = 100 * time.Millisecond })
	s := httptest.NewServer(h)
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(reply, []byte("HTTP/1.1 400 ")) || !bytes.Contains(reply, []byte(`"code":"input"`)) {
		t.Errorf("got %q, %v, want status 400", reply, err)
	}
}

func TestOPS5_AHandlerNeedsAuthorizationAndValidOrigins(t *testing.T) {
	c := newCodec(t, codec.Config{})
	allow := func(*http.Request) error { return nil }
	for name, cfg := range map[string]codec.HandlerConfig{
		"no authorization": {}, "empty token": {Authorize: codec.BearerToken("")},
		"negative count": {Authorize: allow, MaxPayloads: -1}, "negative size": {Authorize: allow, MaxBytes: -1}, "negative time": {Authorize: allow, Timeout: -1},
	} {
		if _, err := codec.NewHandler(c, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := codec.NewHandler(nil, codec.HandlerConfig{Authorize: allow}); err == nil {
		t.Error("no codec: no error")
	}
	for _, origin := range []string{"*", "null", "", "console.example.com", "https://", "https://*", "https://*.example.com", console + "/", console + "/x", console + "?x", "ftp://x", "https://a@b", "https://Console.example.com", "file://", "https://a https://b"} {
		if _, err := codec.NewHandler(c, codec.HandlerConfig{Authorize: allow, Origins: []string{console, origin}}); err == nil {
			t.Errorf("origin %q was accepted", origin)
		}
	}
}

func FuzzHandler(f *testing.F) {
	c := newCodec(f, codec.Config{Keys: codec.Keys(key("k1", 1)), Blobs: &blobs{}})
	h := newHandler(f, c, func(cfg *codec.HandlerConfig) { cfg.MaxBytes = 1 << 16 })
	f.Add(body(seal(f, c, place, []byte("1")), []byte("2"), seal(f, c, place, text(1000))))
	f.Add(`{"payloads":[{"owner":"a","blobs":"..","data":"+AAA"},null,{}]}`)
	f.Add(`{"payloads":[],"payloads":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		if status, _, _ := open(t, h, request(body)); status != 200 && status != 400 && status != 413 {
			t.Errorf("status %d", status)
		}
	})
}
