// Browsers refuse workers to pages that are opened as files. Run the search's worker in a hidden frame there instead,
// so that a copy of the site on a disk can be searched without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      const script = (source) => new Promise((resolve, reject) => {
        const element = this.inside.document.createElement("script");
        element.src = source;
        element.onload = resolve;
        element.onerror = reject;
        this.inside.document.body.appendChild(element);
      });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...sources) => sources.reduce((done, source) => done.then(() => script(source)), Promise.resolve());
      script(url).then(() => {
        this.ready = true;
        this.waiting.forEach((data) => this.postMessage(data));
      }, () => this.dispatchEvent(new Event("error")));
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
