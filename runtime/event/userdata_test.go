package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// turned returns the bytes with all bits inverted, preceded by a byte, so that sizes change.
func turned(content []byte) []byte {
	out := []byte{event.SealedMark}
	for _, c := range content {
		out = append(out, ^c)
	}
	return out
}

func turnedBack(content []byte) []byte {
	return turned(content[1:])[1:]
}

func TestOPS5_AConvertedFrameComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, err := event.AppendFrame(nil, drawFrame(t))
		if err != nil {
			t.Fatal(err)
		}
		places, marked := map[string]bool{}, false
		there, err := event.ConvertFrame(before, func(b []byte, p event.Part, content []byte) ([]byte, error) {
			if places[p.String()] {
				t.Fatalf("two fields have the path %s", p)
			}
			places[p.String()] = true
			marked = marked || event.IsSealed(content)
			return append(b, turned(content)...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(places) > 0 && there[1] != event.SealedVersion {
			t.Fatalf("a frame with sealed data has version %d", there[1])
		}
		if _, err := event.DecodeFrame(there); err != nil {
			t.Fatalf("a converted frame cannot be decoded: %v", err)
		}
		back, err := event.ConvertFrame(there, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
			return append(b, turnedBack(content)...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !marked && !bytes.Equal(before, back) { // user data with the mark would change the version
			t.Fatalf("got %x, want %x", back, before)
		}
		same, err := event.ConvertFrame(before, func(b []byte, _ event.Part, content []byte) ([]byte, error) { return append(b, content...), nil })
		if err != nil || &same[0] != &before[0] {
			t.Fatalf("a frame without a change is copied (%v)", err)
		}
	})
}

// TestOPS5_AllUserDataOfAnEventAreConverted proves that no field with user data is left out: the
// marker in each of these fields is found before, and not after the conversion.
func TestOPS5_AllUserDataOfAnEventAreConverted(t *testing.T) {
	const marker = "marker-4711"
	fails := &event.Failure{Message: marker, Code: "error", Data: []byte(`"` + marker + `"`), Stack: marker, Causes: []*event.Failure{
		{Message: marker, Causes: []*event.Failure{{Stack: marker}}}, {Data: []byte(`"` + marker + `"`)},
	}}
	for _, typ := range event.Types() {
		e := event.Event{
			Seq: 2, Type: typ, Reason: marker, Meta: []byte(`"` + marker + `"`), Failure: fails, Key: "key", Name: "name",
			Attributes: map[string]string{"secret.card": marker, "trace": "plain"}, Spec: &event.Spec{Attributes: map[string]string{"secret.card": marker}},
		}
		switch typ {
		case event.RunStarted, event.VersionRecorded, event.HookCreated, event.StepHookCreated, event.StepPending:
			e.Payload = []byte(`"plain"`) // a number, a shape or the names of streams
		default:
			e.Payload = []byte(`"` + marker + `"`)
		}
		if entity := typ.Entity(); !typ.Creates() && entity != event.EntityRun && entity != event.EntityNone {
			e.Ref = 1
		}
		frame, err := event.AppendFrame(nil, &event.Frame{Events: []event.Event{e}})
		if err != nil {
			t.Fatal(err)
		}
		fields := 0
		sealed, err := event.ConvertFrame(frame, func(b []byte, p event.Part, content []byte) ([]byte, error) {
			fields++
			if !bytes.Contains(content, []byte(marker)) {
				t.Errorf("%s is converted and is no user data: %q", p, content)
			}
			return append(b, turned(content)...), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(frame, []byte(marker)); n != fields {
			t.Errorf("%s: %d fields are converted, %d contain user data", typ, fields, n)
		}
		if bytes.Contains(sealed, []byte(marker)) {
			t.Errorf("%s: user data are left in %q", typ, sealed)
		}
	}
}

func TestOPS5_AConvertedItemComesBackAsItWas(t *testing.T) {
	item, err := event.AppendItem(nil, &event.Event{
		Type: event.MessageReceived, Name: "topic", Payload: []byte(`{"amount":3}`), Reason: "why", Attributes: map[string]string{"secret.a": "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	sealed, err := event.ConvertItem(item, func(b []byte, p event.Part, content []byte) ([]byte, error) {
		paths = append(paths, p.String())
		return append(b, turned(content)...), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"message_received/payload", "message_received/reason", "message_received/secret.a"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	e, err := event.DecodeItem(sealed)
	if err != nil || e.Name != "topic" || !event.IsSealed(e.Payload) || sealed[1] != event.SealedVersion {
		t.Errorf("got %+v and %v, want a sealed message", e, err)
	}
	back, err := event.ConvertItem(sealed, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
		return append(b, turnedBack(content)...), nil
	})
	if err != nil || !bytes.Equal(back, item) {
		t.Errorf("got %x and %v, want %x", back, err, item)
	}
}

func TestOPS5_AFrameThatCannotBeConvertedIsRefused(t *testing.T) {
	frame, err := event.AppendFrame(nil, &event.Frame{Events: []event.Event{{Seq: 1, Type: event.RunCompleted, Payload: []byte(`"result"`), Failure: declined()}}})
	if err != nil {
		t.Fatal(err)
	}
	nothing := func(b []byte, _ event.Part, content []byte) ([]byte, error) { return append(b, content...), nil }
	for i := range frame {
		if _, err := event.ConvertFrame(frame[:i], nothing); !errors.Is(err, event.ErrCorrupt) {
			t.Fatalf("%d bytes: got %v, want ErrCorrupt", i, err)
		}
	}
	fails := errors.New("the codec fails")
	if _, err := event.ConvertFrame(frame, func([]byte, event.Part, []byte) ([]byte, error) { return nil, fails }); !errors.Is(err, fails) {
		t.Errorf("got %v, want the error of the codec", err)
	}
}

func FuzzConvertFrame(f *testing.F) {
	for _, frames := range goldenFrames() {
		for _, frame := range frames {
			b, err := event.AppendFrame(nil, frame)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := event.ConvertFrame(b, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
			return append(b, turned(content)...), nil
		})
		if err != nil {
			return
		}
		back, err := event.ConvertFrame(out, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
			return append(b, turnedBack(content)...), nil
		})
		if err != nil {
			t.Fatalf("a converted frame cannot be converted back: %v", err)
		}
		one, err := event.DecodeFrame(b)
		if err != nil {
			return
		}
		two, err := event.DecodeFrame(back)
		if err != nil || cmp.Diff(one, two) != "" {
			t.Fatalf("the frame differs (%v):\n%s", err, cmp.Diff(one, two))
		}
	})
}

func TestOPS5_SealedDataAreDescribedWithoutAKey(t *testing.T) {
	s := event.Sealed{Flags: event.SealedEncrypted | event.SealedCompressed, Key: "k3", Size: 412}
	data := []byte{event.SealedMark, s.Flags, 0x9c, 3, 2, 'k', '3', 'r', 'e', 's', 't'}
	got, err := event.ReadSealed(data)
	if err != nil || cmp.Diff(s, got) != "" {
		t.Errorf("got %+v and %v, want %+v", got, err, s)
	}
	if err := event.CheckOpen(data); err == nil || err.Error() != "sealed, key k3, 412 B: set ClientConfig.Codec to a codec with key k3" {
		t.Errorf("got %v", err)
	}
	if text := event.ShownText(string(data)); !strings.HasPrefix(text, "sealed, key k3, 412 B: ") {
		t.Errorf("got %q", text)
	}
	if shown := string(event.Shown(data)); !strings.HasPrefix(shown, `{"flowgen.sealed":{"key":"k3","size":412,"data":"`) {
		t.Errorf("got %s", shown)
	}
	for i := 1; i < len(data)-len("rest"); i++ {
		if _, err := event.ReadSealed(data[:i]); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("%d bytes: got %v, want ErrCorrupt", i, err)
		}
	}
	newer := append([]byte{event.SealedMark, 0x80}, data[2:]...)
	if _, err := event.ReadSealed(newer); !errors.As(err, new(*event.VersionError)) {
		t.Errorf("unknown flags: got %v, want a *VersionError", err)
	}
	if got, err := event.ReadSealed([]byte{event.SealedMark, event.SealedCompressed, 7, 'x'}); err != nil || got.Key != "" || got.Size != 7 {
		t.Errorf("data without a key: got %+v and %v", got, err)
	}
	for _, open := range []string{"", `"text"`, `{"a":1}`, "null"} {
		if err := event.CheckOpen([]byte(open)); err != nil || event.IsSealed(open) || string(event.Shown([]byte(open))) != open {
			t.Errorf("%s counts as sealed: %v", fmt.Sprintf("%q", open), err)
		}
	}
}
