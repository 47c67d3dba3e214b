package codec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Handler is an [http.Handler] that opens payloads for browsers and other clients, so that a console
// can show payloads without having their keys. It serves POST /open. The body is
//
//	{"payloads": [{"owner": "…", "field": "…", "blobs": "…", "data": "BASE64"}]}
//
// where data is the stored form, owner and field are its [Place], and blobs is the prefix of its
// blob, if it has one. The reply contains a result for each payload, in this order:
//
//	{"payloads": [{"value": 17}, {"base64": "…"}, {"error": "…", "code": "key"}]}
//
// value is the payload if it is JSON, or else a string if it is UTF-8, and base64 is any other
// payload. The codes are key, damaged, version, size, blob, input, and failed for other errors. If
// the whole request is refused, the reply is {"error": "…", "code": "…"} with a status of 400 or
// more.
type Handler struct {
	codec *Codec
	cfg   HandlerConfig
	cross *http.CrossOriginProtection
}

// HandlerConfig configures a [Handler].
type HandlerConfig struct {
	// Authorize returns an error if the sender of a request may not open payloads. It is called
	// before the body is read. Who may open one payload may open all payloads whose stored form and
	// place they know. It is required; see [BearerToken].
	Authorize func(*http.Request) error
	// Origins contains the origins of the pages that may use the handler, such as
	// "https://console.example.com", in addition to pages of the same origin. There is no wildcard.
	Origins []string
	// MaxPayloads is the maximum number of payloads in a request. The default is 1000.
	MaxPayloads int
	// MaxBytes is the maximum size of the body of a request. It is also the maximum total size of
	// the opened payloads; those above it have an error. The default is 16 MiB.
	MaxBytes int64
	// Timeout is the maximum time of a request. The default is 10 seconds.
	Timeout time.Duration
}

// BearerToken returns a function for [HandlerConfig.Authorize] that accepts requests with the header
// "Authorization: Bearer TOKEN". For an empty token it returns nil, which NewHandler refuses.
func BearerToken(token string) func(*http.Request) error {
	if token == "" {
		return nil
	}
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) error {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return errors.New("the bearer token is missing or wrong")
		}
		return nil
	}
}

// NewHandler returns a handler that opens payloads with a codec.
func NewHandler(c *Codec, cfg HandlerConfig) (*Handler, error) {
	if c == nil {
		return nil, errors.New("new codec handler: the codec is nil")
	}
	if cfg.Authorize == nil {
		return nil, errors.New("new codec handler: Authorize is nil, so that any client could open payloads: set it, for example to BearerToken")
	}
	if cfg.MaxPayloads < 0 || cfg.MaxBytes < 0 || cfg.Timeout < 0 {
		return nil, errors.New("new codec handler: MaxPayloads, MaxBytes and Timeout must not be negative: set them to 0 for their defaults")
	}
	if cfg.MaxPayloads == 0 {
		cfg.MaxPayloads = 1000
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 16 << 20
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	cfg.Origins = slices.Clone(cfg.Origins)
	h := &Handler{codec: c, cfg: cfg, cross: http.NewCrossOriginProtection()}
	for _, origin := range cfg.Origins {
		scheme, host, _ := strings.Cut(origin, "://")
		if err := h.cross.AddTrustedOrigin(origin); err != nil || scheme != "https" && scheme != "http" || strings.ContainsAny(host, "*@ ") || origin != strings.ToLower(origin) {
			return nil, fmt.Errorf("new codec handler: origin %q is invalid: want the form https://host or https://host:port, in lower case", origin)
		}
	}
	return h, nil
}

// requestError refuses a whole request.
type requestError struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Code   string `json:"code"`
}

func (e *requestError) Error() string { return e.Text }

var errOrigin = &requestError{http.StatusForbidden, "the origin of the page is not among those that may open payloads: add it to Origins", "origin"}

// ServeHTTP serves POST /open, and the preflight requests of browsers.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Vary", "Origin")
	origin := r.Header.Get("Origin")
	listed := slices.Contains(h.cfg.Origins, origin)
	if listed {
		header.Set("Access-Control-Allow-Origin", origin)
	}
	if r.Method == http.MethodOptions && r.URL.Path == "/open" && listed {
		header.Set("Access-Control-Allow-Methods", http.MethodPost)
		header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		header.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Timeout)
	defer cancel()
	// The error is that of writers without deadlines, such as those of tests.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.cfg.Timeout))
	results, err := h.open(ctx, w, r)
	status, reply := http.StatusOK, any(map[string]any{"payloads": results})
	if refused, ok := errors.AsType[*requestError](err); ok {
		status, reply = refused.Status, refused
	}
	switch status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", "OPTIONS, POST")
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply) // the client is gone if this fails
}

// open returns the results of a request, or a *requestError.
func (h *Handler) open(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]opened, error) {
	switch {
	case r.URL.Path != "/open":
		return nil, &requestError{http.StatusNotFound, "there is only /open", "not_found"}
	case r.Method == http.MethodOptions:
		return nil, errOrigin
	case r.Method != http.MethodPost:
		return nil, &requestError{http.StatusMethodNotAllowed, "the method must be POST", "method"}
	}
	if h.cross.Check(r) != nil {
		return nil, errOrigin
	}
	if err := h.cfg.Authorize(r.WithContext(ctx)); err != nil { // the error may contain secrets
		return nil, &requestError{http.StatusUnauthorized, "the request may not open payloads: send valid credentials", "unauthorized"}
	}
	payloads, err := h.read(w, r)
	if err != nil {
		return nil, err
	}
	results, left := make([]opened, len(payloads)), h.cfg.MaxBytes
	for i := range payloads {
		results[i] = h.openOne(ctx, &payloads[i], &left)
		if done := results[i].Error == "" && i == len(payloads)-1; ctx.Err() != nil && !done {
			return nil, &requestError{http.StatusServiceUnavailable, fmt.Sprintf("the request takes more than %v: send fewer payloads", h.cfg.Timeout), "timeout"}
		}
	}
	return results, nil
}

// sent is a payload in a request.
type sent struct {
	Owner string `json:"owner"`
	Field string `json:"field"`
	Blobs string `json:"blobs"`
	Data  []byte `json:"data"`
}

// read returns the payloads of a request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]sent, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &requestError{http.StatusUnsupportedMediaType, "the Content-Type must be application/json", "content_type"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBytes))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes: send fewer payloads", h.cfg.MaxBytes), "too_large"}
	}
	if err != nil {
		return nil, &requestError{http.StatusBadRequest, "the body cannot be read: send it again", "input"}
	}
	request := struct {
		Payloads sentList `json:"payloads"`
	}{sentList{most: h.cfg.MaxPayloads}}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&request); errors.Is(err, errTooMany) {
		return nil, &requestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d payloads: send fewer", h.cfg.MaxPayloads), "too_large"}
	} else if err != nil {
		return nil, &requestError{http.StatusBadRequest, `the body is invalid: want {"payloads": [{"owner", "field", "blobs", "data"}]}, with data in base64`, "input"}
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &requestError{http.StatusBadRequest, "text follows the JSON of the body: remove it", "input"}
	}
	return request.Payloads.list, nil
}

// sentList stops at the first payload too many, because a small body can contain millions.
type sentList struct {
	most int
	list []sent
}

var errTooMany = errors.New("too many payloads")

// UnmarshalJSON decodes an array.
func (l *sentList) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.New("want an array")
	}
	for l.list = nil; d.More(); {
		if len(l.list) == l.most {
			return errTooMany
		}
		var p sent
		if err := d.Decode(&p); err != nil {
			return err
		}
		l.list = append(l.list, p)
	}
	return nil
}

// opened is the result of a payload.
type opened struct {
	Value  json.RawMessage `json:"value,omitempty"`
	Base64 []byte          `json:"base64,omitempty"`
	Error  string          `json:"error,omitempty"`
	Code   string          `json:"code,omitempty"`
}

// openOne opens a payload and subtracts its size from left.
func (h *Handler) openOne(ctx context.Context, p *sent, left *int64) opened {
	at := Place{Owner: p.Owner, Field: p.Field}
	if p.Blobs != "" {
		if !validPrefix(p.Blobs) {
			return opened{Error: "the prefix of the blob is invalid", Code: "input"}
		}
		at.Blobs = func(context.Context) (string, error) { return p.Blobs, nil }
	}
	info, err := Inspect(p.Data)
	if err == nil && info.PlainSize > *left {
		err = &SizeError{Place: at, Size: info.PlainSize, Max: *left}
	}
	var plain []byte
	if err == nil {
		plain, err = h.codec.Open(ctx, at, p.Data)
	}
	if err != nil {
		return opened{Error: err.Error(), Code: code(err)}
	}
	*left -= int64(len(plain))
	switch {
	case json.Valid(plain):
		return opened{Value: plain}
	case utf8.Valid(plain):
		text, _ := json.Marshal(string(plain)) // cannot fail
		return opened{Value: text}
	}
	return opened{Base64: plain}
}

// code returns the code of an error of Inspect or Open.
func code(err error) string {
	switch {
	case is[*KeyError](err):
		return "key"
	case is[*DamagedError](err):
		return "damaged"
	case is[*VersionError](err):
		return "version"
	case is[*SizeError](err):
		return "size"
	case is[*BlobError](err):
		return "blob"
	}
	return "failed"
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
