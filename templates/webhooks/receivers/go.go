package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var key, _ = base64.StdEncoding.DecodeString(strings.TrimPrefix("{{ secret }}", "whsec_"))

func verified(headers http.Header, body []byte) bool {
	stamp := headers.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || math.Abs(float64(time.Now().Unix()-seconds)) > 300 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(headers.Get("webhook-id") + "." + stamp + "."))
	mac.Write(body)
	expected := mac.Sum(nil)
	for _, one := range strings.Split(headers.Get("webhook-signature"), " ") {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "v1,"))
		if strings.HasPrefix(one, "v1,") && err == nil && hmac.Equal(given, expected) {
			return true
		}
	}
	return false
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // no message is longer
		if err != nil || !verified(r.Header, body) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		log.Println(r.Header.Get("webhook-id"), string(body))
		var event struct {
			Type string
			Data struct{ Challenge string }
		}
		if err := json.Unmarshal(body, &event); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if event.Type != "subscription.test" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		mac := hmac.New(sha256.New, key) // prove that you know the secret
		mac.Write([]byte(event.Data.Challenge))
		proof := hex.EncodeToString(mac.Sum(nil))
		json.NewEncoder(w).Encode(map[string]string{"challenge": proof})
	})
	server := http.Server{Addr: "127.0.0.1:8081", ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
