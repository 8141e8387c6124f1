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
  window.holdfastInflate = function (bytes) {
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer().then(function (buffer) { return new Uint8Array(buffer); });
  };
  if (typeof DecompressionStream === "undefined") {
    return say("This browser is too old for the report: Chrome 103, Firefox 113 or Safari 16.4 and newer can show it.");
  }
  window.holdfastInflate(window.holdfastBytes(document.getElementById("code").textContent.trim())).then(function (bytes) {
    var parts = new TextDecoder().decode(bytes).split("\u0000");
    ["style", "script"].forEach(function (name, i) {
      var element = document.createElement(name);
      element.textContent = parts[i];
      document.head.appendChild(element);
    });
  }).catch(function (error) { say("This report is damaged: " + error); });
})();
