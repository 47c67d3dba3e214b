package console_test

import (
	"context"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/codec"
)

// marker is a part of the user data of the runs of a sealed site.
const marker = "MARKER4711"

// plainTexts are texts that must be sealed: the marker, and texts of the steps of a scene.
var plainTexts = []string{marker, "label of good", "carrier is closed", "world"}

// sealedSite returns a site without keys that serves sealed runs, and the runs by their input.
func sealedSite(t *testing.T, cfg console.Config) (*site, map[string]string) {
	t.Helper()
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	sealing, err := codec.New(codec.Config{Keys: codec.Keys(key)})
	if err != nil {
		t.Fatal(err)
	}
	scene, without := admintest.NewSealedScene(t, memstore.New(), sealing)
	refs := map[string]string{}
	for _, what := range []string{"good", "bad", "next", "family", "talk", "hook", marker, "paused"} {
		refs[what] = scene.Start(what, "")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	act := func(what string, a admin.Action) {
		t.Helper()
		if _, err := scene.Direct.Act(ctx, refs[what], a); err != nil {
			t.Fatal(err)
		}
	}
	send := func(what string) {
		t.Helper()
		if _, err := scene.Direct.Send(ctx, refs[what], "verdict", admin.Message{Payload: admin.Payload(`{"of":"` + marker + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"good", "bad", "next"} {
		if _, err := scene.Direct.Wait(ctx, refs[what], time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	act("paused", admin.Action{Verb: "pause", Reason: marker})
	waitFor(t, scene, refs["paused"], func(r *admin.Run) bool { return r.Status == "paused" })
	act("family", admin.Action{Verb: "cancel", Reason: marker})
	waitFor(t, scene, refs["family"], func(r *admin.Run) bool { return !r.EndedAt.IsZero() })
	send("paused")
	send("talk")
	waitFor(t, scene, refs["hook"], func(r *admin.Run) bool { return r.Status == "waiting" })
	waitFor(t, scene, refs["talk"], func(r *admin.Run) bool { return r.Events > 16 })
	scene.Direct = without
	return newSiteOver(t, scene, cfg), refs
}

func waitFor(t *testing.T, s *admintest.Scene, ref string, reached func(r *admin.Run) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		r, err := s.Direct.Run(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if reached(&r) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("run %s stays %s with %d events", ref, r.Status, r.Events)
		case <-tick.C:
		}
	}
}

// zoomed matches links to other parts of the time of a run, which contain no further data.
var zoomed = regexp.MustCompile(`[?&](from|show|open|row)=`)

// crawl visits all pages that links reach, beginning with the list of runs.
func (s *site) crawl() map[string]string {
	s.Helper()
	pages, left := map[string]string{}, []string{"runs"}
	for len(left) > 0 && len(pages) < 500 {
		at := left[0]
		left = left[1:]
		if _, known := pages[at]; known {
			continue
		}
		pages[at] = s.get(at, 200)
		for _, m := range regexp.MustCompile(`href="/flows/([^"#]+)"`).FindAllStringSubmatch(pages[at], -1) {
			if to := html.UnescapeString(m[1]); !strings.HasPrefix(to, "assets/") && !strings.Contains(to, "/payload/") && !zoomed.MatchString(to) {
				left = append(left, to)
			}
		}
	}
	return pages
}

// TestOPS5_PagesWithoutAKeyDescribeSealedData follows all links of a console without keys. No page
// fails, and none contains user data or the internal form of sealed data.
func TestOPS5_PagesWithoutAKeyDescribeSealedData(t *testing.T) {
	for _, endpoint := range []string{"", "https://codec.example.com/flows/"} {
		s, refs := sealedSite(t, console.Config{CodecURL: endpoint})
		pages := s.crawl()
		t.Logf("%d pages", len(pages))
		for _, at := range slices.Sorted(maps.Keys(pages)) {
			for _, unwanted := range append(slices.Clone(plainTexts), "\ue000", "\ue001", "flowgen.sealed", ": +", "\ufffd") {
				if i := strings.Index(pages[at], unwanted); i >= 0 {
					t.Errorf("%s contains %q: %q", at, unwanted, pages[at][max(0, i-300):min(len(pages[at]), i+100)])
				}
			}
		}
		for at, want := range map[string]int{
			"runs/" + refs["good"] + "/data": 2, "runs/" + refs["bad"]: 1, "runs/" + refs["bad"] + "/events": 3, "runs/" + refs["paused"]: 1,
			"runs/" + refs["paused"] + "/talk": 2, "runs/" + refs["talk"] + "/talk": 5, "runs/" + refs["family"]: 1, "runs/" + refs["family"] + "/audit": 1,
			"inbox": 1,
		} {
			if got := strings.Count(pages[at], ">sealed, key k1, "); got < want {
				t.Errorf("%s describes %d sealed data, want at least %d\n%s", at, got, want, mainOf(pages[at]))
			}
			if places := strings.Contains(pages[at], "data-sealed="); places != (endpoint != "") {
				t.Errorf("%s has sealed data: %v", at, places)
			}
		}
	}
}

// TestOPS5_FormsRefuseSealedData proves that sealed data do not return to the store as data of another
// run: neither from a field of a form, nor by an action that copies data.
func TestOPS5_FormsRefuseSealedData(t *testing.T) {
	s, refs := sealedSite(t, console.Config{})
	sealed := s.get("runs/"+refs["good"]+"/payload/1", 200)
	has(t, sealed, `{"flowgen.sealed":{"key":"k1"`)
	for path, form := range map[string]url.Values{
		"start":                          {"workflow": {admintest.Workflow}, "input": {sealed}},
		"runs/" + refs["talk"] + "/send": {"topic": {"verdict"}, "payload": {sealed}},
		"runs/" + refs["talk"] + "/ask":  {"name": {"set limit/β"}, "payload": {sealed}},
	} {
		has(t, s.post(path, form, 400), "is sealed data of another run", "open them with their key")
	}
	for verb, what := range map[string]string{"restart": "good", "retry": "bad"} {
		has(t, s.post("act/"+verb, url.Values{"run": {refs[what]}}, 409), "its data are copied to another run", ": sealed, key k1, ")
	}
}

// TestOPS5_TheURLOfACodecEndpointIsChecked proves that a console accepts the URL of an endpoint only if
// it can be a source of its policy, and only over https, except for this machine.
func TestOPS5_TheURLOfACodecEndpointIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "https://codec.example.com": "", "https://codec.example.com:8443/flows/": "", "http://localhost:8080": "", "http://127.0.0.1:8080/codec": "",
		"http://codec.example.com": "use https", "http://localhost.example.com": "use https", "ftp://codec.example.com": "is invalid", "codec.example.com": "is invalid",
		"https://": "is invalid", "https://ada:secret@codec.example.com": "is invalid", "https://codec.example.com?x=1": "is invalid", "https://codec.example.com#x": "is invalid",
		"https://codec.example.com;script-src": "is invalid", "https://*": "is invalid", "https://a b": "is invalid", "https://codec.example.com\n": "is invalid",
	} {
		err := console.CheckCodecURL(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
