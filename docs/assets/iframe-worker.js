// Search in a folder: a browser starts no worker from file://, so its script runs in a hidden frame.
// Material's search asks for nothing but postMessage, onmessage and importScripts.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const inside = `
        self.importScripts = (...names) => names.reduce(
          (before, name) => before.then(() => new Promise((loaded, failed) => {
            const script = document.createElement("script");
            script.src = name; script.onload = loaded; script.onerror = failed;
            document.body.append(script);
          })), Promise.resolve());
        const up = parent;
        self.postMessage = (data) => up.postMessage({ laptimeSearch: data }, "*");`;
      this.frame.srcdoc = `<body><script>${inside}</script><script src="${new URL(address, location)}"></script></body>`;
      this.ready = new Promise((ready) => this.frame.addEventListener("load", ready));
      addEventListener("message", (event) => {
        if (event.source === this.frame.contentWindow && event.data && "laptimeSearch" in event.data) {
          const message = new MessageEvent("message", { data: event.data.laptimeSearch });
          this.dispatchEvent(message);
          if (this.onmessage) this.onmessage(message);
        }
      });
      document.body.append(this.frame);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.postMessage(data, "*"));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
