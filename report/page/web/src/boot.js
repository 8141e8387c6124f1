// The only script in the page's markup. It inflates the style and the code, which the policy identifies by their
// hashes, and starts them.
(function () {
  var say = function (text) { document.getElementById("app").textContent = text; };
  window.holdfastBytes = function (base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    var text = atob(base64), bytes = new Uint8Array(text.length);
    for (var i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
    return bytes;
  };
  // As build.mjs writes it: the length, and five characters for each four bytes.
  var codeBytes = function (text) {
    var digits = [], found = 0, at = text.indexOf(" ") + 1, to = 0, bytes = new Uint8Array(parseInt(text, 10) + 3);
    for (var c = 33; c < 127; ++c) if ("\"&'<>@\\`{".indexOf(String.fromCharCode(c)) < 0) digits[c] = found++;
    for (; at < text.length; at += 5, to += 4) {
      for (var value = 0, k = 0; k < 5; ++k) value = value * 85 + digits[text.charCodeAt(at + k)];
      for (k = 3; k >= 0; --k, value = Math.floor(value / 256)) bytes[to + k] = value % 256;
    }
    return bytes.subarray(0, parseInt(text, 10));
  };
  window.holdfastInflate = function (bytes) {
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer().then(function (buffer) { return new Uint8Array(buffer); });
  };
  if (typeof DecompressionStream === "undefined") {
    return say("This browser is too old for the report: Chrome 103, Firefox 113 or Safari 16.4 and newer can show it.");
  }
  window.holdfastInflate(codeBytes(document.getElementById("code").textContent.trim())).then(function (bytes) {
    var parts = new TextDecoder().decode(bytes).split("\u0000");
    ["style", "script"].forEach(function (name, i) {
      var element = document.createElement(name);
      element.textContent = parts[i];
      document.head.appendChild(element);
    });
  }).catch(function (error) { say("This report is damaged: " + error); });
})();
