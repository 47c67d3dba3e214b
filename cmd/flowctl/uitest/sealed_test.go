package uitest_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/codec"
)

// marker is the user data of the sealed runs. A page that inserted it as HTML would have an image.
const marker = `MARKER4711<img src=x onerror=alert(1)>`

// recorder records all bytes between a server and its clients.
type recorder struct {
	http.Handler

	mu    sync.Mutex
	bytes bytes.Buffer
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	r.record([]byte(q.URL.String() + " " + strings.Join(q.Header.Values("Authorization"), " ")))
	r.record(body)
	q.Header.Del("Accept-Encoding")
	r.Handler.ServeHTTP(&recorded{w, r}, q)
}

func (r *recorder) record(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes.Write(b)
}

func (r *recorder) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.bytes.Bytes(), []byte(text))
}

type recorded struct {
	http.ResponseWriter

	to *recorder
}

func (w *recorded) Write(b []byte) (int, error) {
	w.to.record(b)
	return w.ResponseWriter.Write(b)
}

func (w *recorded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func newCodec(t *testing.T, key codec.Key) *codec.Codec {
	t.Helper()
	return offloading(t, key, nil)
}

func offloading(t *testing.T, key codec.Key, blobs codec.BlobStore) *codec.Codec {
	t.Helper()
	c, err := codec.New(codec.Config{Keys: codec.Keys(key), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newKey(t *testing.T, id string) codec.Key {
	t.Helper()
	key, err := codec.NewKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sealedSite is a console without keys, and a codec endpoint of another origin.
type sealedSite struct {
	site
	traffic  *recorder
	endpoint *httptest.Server
	answers  atomic.Pointer[http.Handler] // of the endpoint
	asked    atomic.Int64                 // requests that the endpoint has received
}

const secret = "token-of-ada"

func newSealedSite(t *testing.T, c *codec.Codec, expected *regexp.Regexp) *sealedSite {
	t.Helper()
	scene, without := admintest.NewSealedScene(t, memstore.New(), c)
	s := &sealedSite{}
	s.endpoint = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.asked.Add(1)
		}
		(*s.answers.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(s.endpoint.Close)
	s.traffic = &recorder{Handler: console.New(without, console.Config{Prefix: "/flows/", CodecURL: s.endpoint.URL + "/"})}
	server := httptest.NewServer(s.traffic)
	t.Cleanup(server.Close)
	s.site = site{scene, newTab(t, server, expected), server.URL + "/flows/"}
	s.answer(t, c, server.URL)
	return s
}

// answer makes the endpoint open payloads with another codec, for pages of an origin.
func (s *sealedSite) answer(t *testing.T, c *codec.Codec, origin string) {
	t.Helper()
	h, err := codec.NewHandler(c, codec.HandlerConfig{Authorize: codec.BearerToken(secret), Origins: []string{origin}})
	if err != nil {
		t.Fatal(err)
	}
	var handler http.Handler = h
	s.answers.Store(&handler)
}

// signIn enters a token for the endpoint.
func (s *sealedSite) signIn(token string) {
	s.Helper()
	s.run("sign in", chromedp.Click("[data-codec-button]"), chromedp.WaitVisible("#codec-token"), chromedp.SendKeys("#codec-token", token+"\r"), until(`!document.querySelector("dialog")`))
}

// shows waits until the page contains a text.
func (s *sealedSite) shows(texts ...string) {
	s.Helper()
	for _, text := range texts {
		s.run("a page with "+text, until("document.querySelector('#main')?.innerText.includes(`"+text+"`)"))
	}
}

// TestOPS5_TheBrowserOpensSealedData follows a reader of a console without keys. The browser opens
// sealed data with the token of the reader, and displays them as text, also in updates. Otherwise the
// page describes the data and the reason. The console receives neither the data nor the token.
func TestOPS5_TheBrowserOpensSealedData(t *testing.T) {
	key := newKey(t, "k1")
	c := newCodec(t, key)
	s := newSealedSite(t, c, regexp.MustCompile(`status of 401|ERR_CONNECTION_REFUSED|ERR_FAILED|blocked by CORS policy`))
	run, bad, talk := s.Start(marker, ""), s.Ended("bad", ""), s.Start("talk", "")
	page := s.url + "runs/" + run + "/data"
	described, home := "sealed, key k1, ", strings.TrimSuffix(s.url, "/flows/")

	s.run("no scripts", emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(page), chromedp.WaitVisible(".sealed"), emulation.SetScriptExecutionDisabled(false))
	s.run("no scripts", chromedp.WaitVisible(`//span[@class="sealed" and starts-with(text(), "`+described+`")]`, chromedp.BySearch))

	s.run("no token", chromedp.Navigate(page))
	s.shows(described, "sign in to decrypt it")
	if n := s.asked.Load(); n != 0 {
		t.Errorf("without a token, the endpoint has received %d requests", n)
	}
	s.signIn("wrong")
	s.shows(described, "the endpoint refuses your token")
	s.signIn(secret)
	s.shows(`"` + marker + `"`)
	var images int
	s.run("images", chromedp.Evaluate(`document.querySelectorAll("#main img").length`, &images))
	if images != 0 {
		t.Errorf("user data have become %d elements", images)
	}
	for path, texts := range map[string][]string{
		bad: {"the carrier is closed"}, bad + "/events": {`"bad"`, "the carrier is closed"}, run + "/talk": {`"` + marker + `"`}, talk + "/talk": {`"hello"`, `"world"`},
	} {
		s.run(path, chromedp.Navigate(s.url+"runs/"+path))
		s.shows(texts...)
	}

	s.run("updates", chromedp.Navigate(s.url+"runs/"+talk+"/talk"))
	s.shows(`"hello"`)
	if _, err := s.Direct.Send(t.Context(), talk, "verdict", admin.Message{Payload: admin.Payload(`{"n":12345678901234567890,"of":"` + marker + `"}`)}); err != nil {
		t.Fatal(err)
	}
	s.shows(`"n": 12345678901234567890`)

	s.answer(t, newCodec(t, newKey(t, "k2")), home)
	s.run("another key", chromedp.Navigate(page))
	s.shows(described, "the endpoint does not have this key")
	other := key
	other.Secret[0]++
	s.answer(t, newCodec(t, other), home)
	s.run("damaged", chromedp.Navigate(page))
	s.shows(described, "damaged: ")
	s.answer(t, c, "https://elsewhere.example.com")
	s.run("another origin", chromedp.Navigate(page))
	s.shows(described, "cannot be reached, or does not permit this page")
	s.answer(t, c, home)
	s.run("decrypt again", chromedp.Click("[data-codec-button]"))
	s.shows(`"` + marker + `"`)
	s.endpoint.CloseClientConnections()
	s.endpoint.Close()
	s.run("no endpoint", chromedp.Navigate(page))
	s.shows(described, "cannot be reached")

	if s.asked.Load() < 5 || !s.traffic.has(described) {
		t.Errorf("the endpoint has received %d requests", s.asked.Load())
	}
	for _, text := range []string{"MARKER4711", "carrier is closed", secret} {
		if s.traffic.has(text) {
			t.Errorf("the console has received or sent %q", text)
		}
	}
}

// TestOPS11_TheBrowserOpensLargeDataOnRequest follows a reader of a console without keys and blobs whose
// codec endpoint has the same origin, and so needs no token. Small data are opened at once, and large
// and offloaded ones by a button, which reports the reason if it fails and can be used again.
func TestOPS11_TheBrowserOpensLargeDataOnRequest(t *testing.T) {
	blobs, err := codec.NewFileBlobs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := offloading(t, newKey(t, "k1"), blobs)
	scene, without := admintest.NewSealedScene(t, memstore.New(), c)
	endpoint, err := codec.NewHandler(c, codec.HandlerConfig{Authorize: func(*http.Request) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.Handle("/codec/", http.StripPrefix("/codec", endpoint))
	mux.Handle("/flows/", console.New(without, console.Config{Prefix: "/flows/", CodecURL: server.URL + "/codec"}))
	s := site{scene, newTab(t, server, nil), server.URL + "/flows/"}
	shows := func(text string) {
		t.Helper()
		s.run("a page with "+text, until("document.querySelector('#main')?.innerText.includes(`"+text+"`)"))
	}
	const button = `//button[text()="Decrypt"]`

	s.run("small", chromedp.Navigate(s.url+"runs/"+s.Start(marker, "")+"/data"))
	shows(`"` + marker + `"`)
	for name, size := range map[string]int{"in the log": 100 << 10, "offloaded": 400 << 10} {
		random := make([]byte, size/8*6)
		_, _ = rand.Read(random)
		large := marker + base64.StdEncoding.EncodeToString(random)
		run := s.Start(large, "")
		page := s.url + "runs/" + run + "/data"
		s.run(name, chromedp.Navigate(page), chromedp.WaitVisible(button, chromedp.BySearch))
		if _, err := s.Direct.Act(t.Context(), run, admin.Action{Verb: "pause"}); err != nil {
			t.Fatal(err)
		}
		shows("Resume") // an update of the page keeps the button
		var early bool
		s.run(name, chromedp.Evaluate(`document.querySelector("#main").innerText.includes("MARKER4711")`, &early), chromedp.Click(button, chromedp.BySearch))
		if early {
			t.Errorf("%s: opened before the click", name)
		}
		shows(`"` + large[:1000])
		s.run(name, chromedp.WaitNotPresent(button, chromedp.BySearch), chromedp.WaitVisible(`//button[text()="Save all"]`, chromedp.BySearch))
		if size < 256<<10 {
			continue
		}
		all, err := blobs.List(t.Context(), "", "", 10)
		kept := map[string][]byte{}
		for _, b := range all {
			if err == nil {
				kept[b.Name], err = blobs.Get(t.Context(), b.Name)
			}
			if err == nil {
				err = blobs.Delete(t.Context(), b.Name)
			}
		}
		if err != nil || len(kept) == 0 {
			t.Fatalf("%d blobs, %v", len(kept), err)
		}
		s.run("without the blob", chromedp.Navigate(page), chromedp.Click(button, chromedp.BySearch))
		shows("the blob of the data is missing")
		s.run("without the blob", chromedp.WaitVisible(button, chromedp.BySearch))
		for name, data := range kept {
			if err := blobs.Put(t.Context(), name, data); err != nil {
				t.Fatal(err)
			}
		}
		s.run("with the blob", chromedp.Click(button, chromedp.BySearch))
		shows(`"` + large[:1000])
	}
}
